#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Two hosts whose brokers ask each other who peers are, by rdmabroker-peerd and MUNGE. Needs tests/guest/run --second.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../broker.sh
. "$(dirname "$0")/../broker.sh"
# shellcheck source=../pair.sh
. "$(dirname "$0")/../pair.sh"

# ---- policies ----

# The rules of all cases. Most cases decide here about clients from there. Port 7472 never depends on who the peer is.
rules() {
	printf '%s\n' "allow session" "allow device" "allow listen"
	cat
	printf '%s\n' "allow connect" "allow accept port 7472"
}

here_rules() {
	rules | policy
}

there_rules() {
	rules > "$PAIR/policy"
	on_there eval "policy < $PAIR/policy"
}

# enforce on|off: the setting OnReload= on this host, from the next reload on
enforce() {
	local file=/etc/rdmabroker/rdmabrokerd.conf.d/50-peers.conf

	rm -f $file
	[ "$1" = off ] || printf '[Daemon]\nOnReload=enforce\n' > $file
}

# ---- clients there, and what was said ----

# there_pings USER ADDR PORT [STATUS [COMMAND...]]: a client there, which is run by COMMAND, must end with STATUS (0).
# Its output is in the file words. On a busy machine an answer can take longer than the two seconds for which the broker
# waits. If a client is refused for that, it comes again.
there_pings() {
	local user=$1 addr=$2 port=$3 status=${4:-0} end=$((SECONDS + patience)) before

	shift $(($# < 4 ? $# : 4))
	while :; do
		before=$(journal_cursor)
		there_start client "$@" as "$user" rdmabroker-ping -c -a "$addr" -p "$port" -C 2
		await "[ -e '$PAIR/${there[client]}.exit' ]"
		[ "$(cat "$PAIR/${there[client]}.exit")" != "$status" ] && [ $SECONDS -lt $end ] &&
			journalctl -u rdmabrokerd -o cat --after-cursor="$before" | grep -q "in time" || break
	done
	there_finish client "$status"
	there_output client > words
}

# said TEXT: waits until the daemon's journal here contains TEXT, since mark_journal.
said() {
	(await "journal | grep -qF -- ${1@Q}") || (journal && exit 1)
}

# there_said UNIT TEXT: waits until one of the last lines of UNIT's journal there contains TEXT.
there_said() {
	on_there await "journalctl -u $1 -o cat -n 6 | grep -qF -- ${2@Q}"
}

# ---- the cases ----

# What the guests must have in common: the same uid, as admins of a cluster have to provide.
case_same_uids() {
	there_is id -u rdmabroker-peerd > uid
	assert_eq "$(cat uid)" "$(id -u rdmabroker-peerd)"
	assert_eq "$(stat -c %U "/proc/$(systemctl show --property=MainPID --value rdmabroker-peerd)")" rdmabroker-peerd
	systemd-analyze security --no-pager rdmabroker-peerd | grep Overall | show
}

# same_user_here ADDR: alice's server here
same_user_here() {
	mark_journal
	serve server alice "$1" 7471 -P
	there_pings alice "$1" 7471
	said "the peer is uid 1000"
	there_pings bob "$1" 7471 3
	assert_contains "$(cat words)" "rejected by policy of the peer's broker (no-rule)"
	said "rejected by default, because no rule matches; the peer is uid 1001"
	stop server
}

# same_user_there ADDR: alice's server there
same_user_there() {
	there_start server as alice rdmabroker-ping -s -a "$1" -p 7471 -P -v
	there_says server "listening on"
	ping_once alice "$1" -p 7471
	there_said rdmabrokerd "the peer is uid 1000"
	fails 3 ping_once bob "$1" -p 7471
	assert_contains "$(cat words)" "rejected by policy of the peer's broker (no-rule)"
	there_said rdmabrokerd "rejected by default, because no rule matches; the peer is uid 1001"
	there_stop server rdmabroker-ping
}

case_same_user() {
	local watcher

	here_rules <<< "allow accept port 7471 peer-same user log"
	there_rules <<< "allow accept port 7471 peer-same user log"
	rdmabrokerctl events > events 2>&1 &
	watcher=$!
	await_line events "REASON"
	same_user_here $HERE
	await_line events "the peer is bob"
	same_user_here $HERE6
	await_line events "the peer is bob" 2
	kill -TERM $watcher
	wait $watcher
	grep -F "the peer is" events | show
	same_user_there $THERE
	same_user_there $THERE6
	# While the connection exists, an admin sees who the peer is.
	serve server alice $HERE 7471 -P
	there_start client as alice rdmabroker-ping -c -a $HERE -p 7471 -k
	await_line server "established"
	rdmabrokerctl list --connections > list
	show < list
	assert_contains "$(head -n 1 list)" "PEER-IS"
	assert grep -q "$THERE.* alice" list
	there_stop client rdmabroker-ping
	stop server
}

# in_unit NAME: a command that runs another one as the service NAME.
in_unit() {
	unit=(systemd-run --quiet --wait --pipe --collect "--unit=$1")
}

case_users_groups_units() {
	local unit port name

	here_rules <<-END
		reject accept port 7473 peer-user bob,1234 reason "not bob"
		allow accept port 7473 peer-group rdma
		allow accept port 7474 peer-unit client-*.service
		allow accept port 7475 peer-same unit
		reject accept port 7476 peer-unit client-b.service reason "not this unit"
		allow accept port 7476
	END
	for port in 7473 7474 7475 7476; do
		serve server$port alice $HERE $port -P
	done
	mark_journal

	there_pings alice $HERE 7473
	there_pings bob $HERE 7473 3
	assert_contains "$(cat words)" "not bob"
	said "not bob; the peer is uid 1001"
	there_pings carol $HERE 7473 3
	said "the peer is uid 1002"

	in_unit client-a
	there_pings bob $HERE 7474 0 "${unit[@]}"
	there_pings bob $HERE 7474 3
	in_unit other
	there_pings bob $HERE 7474 3 "${unit[@]}"
	said "the peer is uid 1001 in other.service"

	# All that runs in the guests without another unit is in one of the same name.
	name=$(sed 's,.*/,,' /proc/self/cgroup)
	there_pings bob $HERE 7475
	in_unit client-a
	there_pings bob $HERE 7475 3 "${unit[@]}"
	said "the peer is uid 1001 in client-a.service"
	systemd-run --quiet --collect --unit=client-a "$(type -P as)" alice rdmabroker-ping -s -a $HERE -p 7477 -P
	here_rules <<< "allow accept port 7477 peer-same unit"
	(await "rdmabrokerctl list --listeners | grep -q :7477")
	there_pings bob $HERE 7477 0 "${unit[@]}"
	mark_journal
	there_pings bob $HERE 7477 3
	said "the peer is uid 1001 in $name"
	systemctl stop client-a
	here_rules <<-END
		reject accept port 7476 peer-unit client-b.service reason "not this unit"
		allow accept port 7476
	END

	there_pings bob $HERE 7476
	in_unit client-b
	there_pings bob $HERE 7476 3 "${unit[@]}"
	assert_contains "$(cat words)" "not this unit"
	for port in 7473 7474 7475 7476; do
		stop server$port
	done
}

# in_job NUMBER: a command that runs another one in a control group like those of Slurm.
in_job() {
	# shellcheck disable=SC2016
	job=(bash -c 'mkdir -p "$0" && echo $BASHPID > "$0/cgroup.procs" && exec "$@"'
		"/sys/fs/cgroup/slurmstepd.scope/job_$1/step_0")
}

end_jobs() {
	find /sys/fs/cgroup/slurmstepd.scope -depth -type d -delete
}

case_job() {
	local job

	here_rules <<< "allow accept port 7471 peer-same job"
	in_job 77
	"${job[@]}" as alice rdmabroker-ping -s -a $HERE -p 7471 -P -v > server 2>&1 &
	pid[server]=$!
	await_line server "listening on"
	mark_journal
	there_pings bob $HERE 7471 0 "${job[@]}"
	in_job 78
	there_pings alice $HERE 7471 3 "${job[@]}"
	there_pings alice $HERE 7471 3
	said "the peer is uid 1000"
	journalctl -u rdmabrokerd -o verbose -n 20 | grep RDMABROKER_PEER_JOB | sort -u | show
	assert_contains "$(journalctl -u rdmabrokerd -o verbose -n 20)" "RDMABROKER_PEER_JOB=78"
	stop server
	# A server that is in no job has no peer of the same job.
	serve server alice $HERE 7471 -P
	there_pings alice $HERE 7471 3
	stop server
	(await end_jobs)
	there_start jobs eval "$(declare -f end_jobs); await end_jobs"
	there_finish jobs
}

# The rule of the client's host asks who listens there.
case_connect_side() {
	policy <<-END
		allow session
		allow device
		allow listen
		allow accept
		allow connect port 7471 peer-user alice
		allow connect port 7472
	END
	there_rules <<< "allow accept"
	there_start server as alice rdmabroker-ping -s -a $THERE -p 7471 -P -v
	there_says server "listening on"
	ping_once bob $THERE -p 7471
	there_stop server rdmabroker-ping
	# Listeners on all addresses. The kernel rejects connections by IPv6 to 0.0.0.0.
	there_start server as alice rdmabroker-ping -s -a 0.0.0.0 -p 7471 -P -v
	there_says server "listening on"
	ping_once bob $THERE -p 7471
	there_stop server rdmabroker-ping
	there_start server as alice rdmabroker-ping -s -a :: -p 7471 -P -v
	there_says server "listening on"
	ping_once bob $THERE6 -p 7471
	there_stop server rdmabroker-ping
	mark_journal
	there_start server as bob rdmabroker-ping -s -a $THERE -p 7471 -P -v
	there_says server "listening on"
	fails 3 ping_once bob $THERE -p 7471
	show < words
	said "connect to $THERE:7471 rejected by default, because no rule matches; the peer is uid 1001"
	assert_lacks "$(there_output server)" "CONNECT_REQUEST"
	there_stop server rdmabroker-ping
	mark_journal
	fails 3 ping_once bob $THERE -p 7471
	said "is not known: $THERE says: no program of rdmabrokerd has this address there"
}

# ---- how often it is asked ----

# The kernel marks the last packet of a message by PSH.
MESSAGES=(-p tcp --dport 9472 --tcp-flags PSH PSH)
CONNECTIONS=(-p tcp --dport 9472 --syn)

count_questions() {
	iptables -I OUTPUT "${MESSAGES[@]}"
	iptables -I OUTPUT "${CONNECTIONS[@]}"
}

end_counting() {
	iptables -D OUTPUT "${MESSAGES[@]}"
	iptables -D OUTPUT "${CONNECTIONS[@]}"
}

# connections: prints how many connections were opened to the helper there.
connections() {
	iptables -nvxL OUTPUT 1 | awk '{ print $1 }'
}

# messages: prints how many messages with questions were sent.
messages() {
	iptables -nvxL OUTPUT 2 | awk '{ print $1 }'
}

case_not_asked() {
	local asked
	enforce on
	here_rules <<-END
		allow accept port 7473 user alice
		reject accept port 7473 user bob
		allow accept port 7471 peer-same user
		allow accept port 7473 peer-user bob
	END
	serve server alice $HERE 7471 -P
	serve other alice $HERE 7472 -P
	serve decided alice $HERE 7473 -P
	count_questions
	# The rule that decides says nothing about who the peer is.
	there_pings bob $HERE 7472
	there_pings bob $HERE 7473
	assert_eq "$(messages)" 0
	there_start client as alice rdmabroker-ping -c -a $HERE -p 7471 -k
	await_line server "established"
	# The kernel can send a packet again.
	asked=$(messages)
	assert test "$asked" -ge 1
	# The answer is kept, and new rules decide by it.
	here_rules <<< "allow accept port 7471 peer-user alice"
	flows
	assert_eq "$(messages)" "$asked"
	assert_contains "$(rdmabrokerctl list --connections)" "$THERE"
	here_rules <<< "allow accept port 7471 peer-user bob"
	await_line server "RDMABROKER_EVENT_DISCONNECTED"
	assert_eq "$(messages)" "$asked"
	there_finish client 1
	end_counting
	enforce off
	reload "policy reloaded"
	stop server
	stop other
	stop decided
}

# ---- why it can be unknown ----

# unknown WHY: alice there is refused because it is not known who she is.
unknown() {
	mark_journal
	there_pings alice $HERE 7471 3
	assert_contains "$(cat words)" "rejected by policy of the peer's broker (no-rule)"
	said "who the peer is, is not known: $1"
	journal | grep -o 'is not known: .*' | show
}

works() {
	there_pings alice $HERE 7471
}

# not_waiting: a connection that nobody has to be asked about is set up while another one waits for an answer.
not_waiting() {
	local try

	for try in {1..5}; do
		# shellcheck disable=SC2016
		there_start two eval '
			as alice rdmabroker-ping -c -a '$HERE' -p 7471 > slow 2>&1 &
			as alice rdmabroker-ping -c -a '$HERE' -p 7472
			! kill -0 $! || echo "the other one waits"
			wait $! || true
			cat slow'
		there_finish two
		! there_output two | grep "the other one waits" || return 0
		progress "try $try"
	done
	fail "a connection has waited for an answer about another one"
}

case_unknown_reasons() {
	here_rules <<< "allow accept port 7471 peer-same user"
	there_rules <<< "allow accept"
	serve server alice $HERE 7471 -P
	serve other alice $HERE 7472 -P
	works

	systemctl stop rdmabroker-peerd.socket rdmabroker-peerd.service
	unknown "rdmabroker-peerd is not there"
	systemctl start rdmabroker-peerd
	peerd_serves
	works

	on_there systemctl stop rdmabroker-peerd.socket rdmabroker-peerd.service
	unknown "cannot reach rdmabroker-peerd of $THERE: Connection refused"
	on_there systemctl start rdmabroker-peerd
	on_there peerd_serves
	works

	systemctl stop munge
	unknown "MUNGE cannot seal: "
	systemctl start munge
	works

	on_there systemctl stop munge
	unknown "rdmabroker-peerd of $THERE does not answer; the journal there says why"
	there_said rdmabroker-peerd "Refused the questions of $HERE: "
	on_there systemctl start munge
	works

	pkill -STOP -x munged
	unknown "munged has not sealed the question in time"
	pkill -CONT -x munged
	works

	on_there pkill -STOP -x munged
	unknown "rdmabroker-peerd of $THERE has not answered in time"
	on_there pkill -CONT -x munged
	works

	# shellcheck disable=SC2016
	on_there eval '
		systemctl stop munge
		head -c 1024 /dev/urandom > key
		install -o munge -g munge -m 400 key /etc/munge/munge.key
		systemctl start munge'
	unknown "rdmabroker-peerd of $THERE does not answer; the journal there says why"
	there_said rdmabroker-peerd "Refused the questions of $HERE: Invalid credential."
	on_there peerd_up
	works

	on_there date -s "+5 minutes"
	unknown "rdmabroker-peerd of $THERE does not answer; the journal there says why"
	there_said rdmabroker-peerd "the clocks differ too much"
	on_there date -s "-5 minutes"
	works
	on_there date -s "-5 minutes"
	unknown "rdmabroker-peerd of $THERE does not answer; the journal there says why"
	there_said rdmabroker-peerd "the clocks differ too much"
	on_there date -s "+5 minutes"
	works

	on_there systemctl stop rdmabrokerd.socket rdmabrokerd.service
	mark_journal
	there_start direct rping -c -a $HERE -p 7471 -C 1
	there_finish direct 255
	said "is not known: $THERE says: rdmabrokerd does not answer there"
	on_there systemctl start rdmabrokerd.socket rdmabrokerd.service
	on_there peerd_serves
	works

	# root there uses librdmacm itself.
	mark_journal
	there_start direct rping -c -a $HERE -p 7471 -C 1
	there_finish direct 255
	said "is not known: $THERE says: no program of rdmabrokerd has this address there"
	works

	on_there iptables -I INPUT -p tcp --dport 9472 -j DROP
	unknown "rdmabroker-peerd of $THERE has not answered in time"
	not_waiting
	on_there iptables -D INPUT -p tcp --dport 9472 -j DROP
	works

	# Rejects by such a rule are on the safe side, too.
	here_rules <<-END
		reject accept port 7471 peer-user bob reason "perhaps it is bob"
		allow accept port 7471
	END
	works
	on_there systemctl stop rdmabroker-peerd.socket rdmabroker-peerd.service
	mark_journal
	there_pings alice $HERE 7471 3
	assert_contains "$(cat words)" "perhaps it is bob"
	said "perhaps it is bob; who the peer is, is not known: cannot reach rdmabroker-peerd of $THERE"
	on_there systemctl start rdmabroker-peerd
	on_there peerd_serves
	works
	stop server
	stop other
}

# ---- restarts ----

killed_peerd() {
	systemctl kill --signal=KILL rdmabroker-peerd
	(await "systemctl -q is-active rdmabroker-peerd && systemctl show --property=NRestarts --value rdmabroker-peerd | grep -qv '^0'")
	peerd_serves
}

# A connection stays, and others are made, whatever is restarted. With OnReload=enforce the new daemon, which does not
# know who the peers are, does not end them.
case_restarts() {
	enforce on
	here_rules <<< "allow accept port 7471 peer-same user"
	there_rules <<< "allow connect port 7471 peer-same user"
	serve server alice $HERE 7471 -P
	serve second alice $HERE 7473 -P
	here_rules <<< "allow accept port 7471,7473 peer-same user"
	there_start long as alice rdmabroker-ping -c -a $HERE -p 7473 -k
	await_line second "established"
	flows

	systemctl restart rdmabrokerd
	works
	flows
	on_there systemctl restart rdmabrokerd
	works
	flows
	on_there systemctl reload rdmabrokerd
	reload "policy reloaded"
	flows
	works

	systemctl restart rdmabroker-peerd
	peerd_serves
	works
	on_there systemctl restart rdmabroker-peerd
	on_there peerd_serves
	works
	# The first question starts it, if systemd has its socket only. The answer to this question can be too late.
	on_there systemctl stop rdmabroker-peerd.service
	mark_journal
	there_start client as alice rdmabroker-ping -c -a $HERE -p 7471 -C 2
	await "[ -e '$PAIR/${there[client]}.exit' ]"
	echo "the first question: $(there_output client | head -n 1) $(journal | grep -o 'is not known: .*')" | show
	on_there peerd_serves
	works
	killed_peerd
	works
	there_start kill eval "$(declare -f killed_peerd); killed_peerd"
	there_finish kill
	works
	flows

	systemctl kill --signal=KILL rdmabrokerd
	(await "systemctl -q is-active rdmabrokerd")
	peerd_serves
	works
	flows
	mark_journal
	there_pings bob $HERE 7471 3
	said "the peer is uid 1001"
	there_stop long rdmabroker-ping
	enforce off
	reload "policy reloaded"
	stop second
	stop server
}

# ---- containers ----

# Root in a user namespace is the user who has made it.
case_containers() {
	here_rules <<< "allow accept port 7471 peer-same user log"
	serve server alice $HERE 7471 -P
	mark_journal
	there_start client as alice unshare --user --map-root-user sh -c \
		"id -u && exec rdmabroker-ping -c -a $HERE -p 7471 -C 2"
	there_finish client
	assert_eq "$(there_output client | head -n 1)" 0
	said "the peer is uid 1000"
	there_start client as bob unshare --user --map-root-user rdmabroker-ping -c -a $HERE -p 7471 -C 2
	there_finish client 3
	said "the peer is uid 1001"
	stop server
	# And root of the host is nobody else's root.
	as alice unshare --user --map-root-user rdmabroker-ping -s -a $HERE -p 7471 -P -v > server 2>&1 &
	pid[server]=$!
	await_line server "listening on"
	works
	there_pings root $HERE 7471 3
	stop server
}

# ---- what another host can ask ----

# A question by hand, of the user rdmabroker-peerd or another one there.
asker() {
	cat <<'END'
import json, socket, subprocess, sys

source, text_from, text_to, port, restriction = sys.argv[1:]
text = json.dumps({"version": 1, "kind": "questions", "nonce": "0123456789abcdef", "from": text_from, "to": text_to,
                   "questions": [{"who": "listens", "ps": 0x106, "port": int(port), "peer_port": 0, "qpn": 0}]})
command = ["munge", "--ttl=30", "--zip=none"] + (["--restrict-uid=" + restriction] if restriction else [])
sealed = subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True).stdout.strip().encode()
for turn in range(2):
    with socket.create_connection(("10.8.0.1", 9472), timeout=20, source_address=(source, 0)) as peer:
        peer.sendall(len(sealed).to_bytes(4, "big") + sealed)
        peer.shutdown(socket.SHUT_WR)
        answer = b""
        while data := peer.recv(65536):
            answer += data
    if answer:
        command = ["unmunge", "--metadata=/dev/null"]
        answer = subprocess.run(command, input=answer[4:], stdout=subprocess.PIPE).stdout.decode()
    print("answer:", answer or "none")
END
}

# asks USER FROM TO [UID]: the answers are in the file words.
asks() {
	there_start asks as "$1" python3 "$PAIR/asker.py" $THERE "$2" "$3" 7471 "${4-}"
	there_finish asks
	there_output asks > words
}

# peerd_said TEXT: waits until one of the last lines of the journal of rdmabroker-peerd here contains TEXT.
peerd_said() {
	(await "journalctl -u rdmabroker-peerd -o cat -n 3 | grep -qF -- ${1@Q}") ||
		(journalctl -u rdmabroker-peerd -o cat -n 5 && exit 1)
}

refused() {
	assert_eq "$(sort -u words)" "answer: none"
	peerd_said "Refused the questions of $THERE: $1"
}

case_wrong_host() {
	local uid

	uid=$(id -u rdmabroker-peerd)
	here_rules <<< ""
	asker > "$PAIR/asker.py"
	chmod 644 "$PAIR/asker.py"
	serve server alice $HERE 7471 -P
	# As it should be, but a seal can be used only once.
	asks rdmabroker-peerd $THERE $HERE "$uid"
	show < words
	assert_contains "$(head -n 1 words)" '"uid":1000'
	assert_eq "$(tail -n 1 words)" "answer: none"
	peerd_said "its seal was used before"
	asks rdmabroker-peerd 10.8.0.99 $HERE "$uid"
	refused "its sender is not the host that has sent it"
	asks rdmabroker-peerd $THERE 10.8.0.99 "$uid"
	refused "it is for another host or another address"
	asks alice $THERE $HERE "$uid"
	refused "its seal is from another uid"
	asks alice $THERE $HERE 1000
	refused "its seal is for another uid"
	stop server
}

# ---- how fast it is ----

# many_connects USER PORT N: starts N connects at once there.
many_connects() {
	there_start "$1-$2" as "$1" connects at-once $HERE "$2" "$3"
}

many_end() {
	there_finish "$1-$2"
	echo "$1, port $2: $(there_output "$1-$2")" | show
}

serve_connects() {
	as alice connects serve $HERE 7471 7472 > server 2>&1 &
	pid[server]=$!
	await_line server "listening"
}

# judge FILE: the decisions about port 7471 must be right: allowed for alice, rejected for bob and where there was no answer
# in time, which happens on a busy machine. Prints how many there are of each.
judge() {
	python3 -c '
import collections, json, sys
found = collections.Counter()
for line in open(sys.argv[1]):
	event = json.loads(line)
	if event["local"] == "10.8.0.1:7471":
		who = event["peer_identity"]["user"] if event["peer_identity"] else event["peer_unknown"]
		found[event["outcome"], who] += 1
for (outcome, who), n in sorted(found.items()):
	print(f"{n} {outcome}: {who}")
	right = "allowed" if who == "alice" else "rejected"
	assert outcome == right, (outcome, who)
	assert who in ("alice", "bob") or "in time" in who or "within 2 s" in who or "too many" in who, who
assert (found["allowed", "alice"] or found["rejected", "bob"]) and sum(found.values()) == 200, found' "$1"
}

# one_connect USER COUNTS: a connect of USER's by itself.
one_connect() {
	there_start "one-$1" as "$1" connects one-by-one $HERE 7471 1
	there_finish "one-$1"
	assert_contains "$(there_output "one-$1")" "$2"
}

# Connects of alice and of bob, at once, and beside them some that need no answer.
case_many() {
	local watcher

	here_rules <<< "allow accept port 7471 peer-same user"
	serve_connects
	rdmabrokerctl --json events --operation accept > decisions &
	watcher=$!
	there_start alone as alice connects one-by-one $HERE 7472 20
	there_finish alone
	(await "grep -q :7472 decisions")
	count_questions
	many_connects alice 7471 100
	many_connects bob 7471 100
	there_start beside as alice connects one-by-one $HERE 7472 20
	there_finish beside
	many_end alice 7471
	many_end bob 7471
	echo "one by one on port 7472, alone:  $(there_output alone)" | show
	echo "one by one on port 7472, beside: $(there_output beside)" | show
	echo "the 200 questions: $(messages) messages, over $(connections) new TCP connections" | show
	end_counting
	(await "[ \$(grep -c '\"local\":.*:7471' decisions) -ge 200 ]") || (wc decisions && exit 1)
	kill -TERM $watcher
	wait $watcher
	judge decisions | show
	assert_contains "$(there_output beside)" "20 connected, 0 rejected, 0 failed"
	# Nothing of it is left.
	one_connect alice "1 connected, 0 rejected, 0 failed"
	one_connect bob "0 connected, 1 rejected, 0 failed"
	stop_connects
}

stop_connects() {
	kill "${pid[server]}"
	finish server 143
}

case_cost() {
	local port

	here_rules <<< "allow accept port 7471 peer-same user"
	serve_connects
	count_questions
	for port in 7472 7471 7472 7471; do
		there_start cost as alice connects one-by-one $HERE $port 100
		there_finish cost
		assert_contains "$(there_output cost)" " 0 failed"
		echo "port $port, $([ $port = 7471 ] && echo with || echo without) a question: $(there_output cost)" | show
	done
	echo "the 200 questions: $(messages) messages, over $(connections) new TCP connections" | show
	# A connection is kept, so a question is one round trip. Only a question that had no answer in time ends it.
	assert test "$(messages)" -ge 200
	assert test "$(connections)" -le 10
	end_counting
	stop_connects
}

pair_up < <(rules <<< "allow accept")
head -c 1024 /dev/urandom > "$PAIR/munge.key"
there_start peerd peerd_up
peerd_up
there_finish peerd
run_cases "$@"
status=$?
peerd_down
on_there peerd_down
exit $status
