#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Policy: limits, quotas, reloads, and what is logged and reported.
#
# alice serves and bob connects. dave does both, and carol neither.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../broker.sh
. "$(dirname "$0")/../broker.sh"

# rule_field TEXT FIELD: prints a counter of the rule TEXT.
rule_field() {
	rdmabrokerctl --json rules | python3 -c '
import json, sys
for rule in json.load(sys.stdin)["rules"]:
	if rule["text"] == sys.argv[1]:
		print(rule[sys.argv[2]])' "$1" "$2"
}

# journal_fields CODE FIELD...: prints fields of the entries with CODE since mark_journal. With a cursor and a match,
# journalctl would skip the first entry that matches.
journal_fields() {
	journalctl -u rdmabrokerd -o json --after-cursor="$journal_mark" | python3 -c '
import json, sys
for line in sys.stdin:
	entry = json.loads(line)
	if entry.get("RDMABROKER_CODE") == sys.argv[1]:
		print(*[entry.get("RDMABROKER_" + field, "-") for field in sys.argv[2:]])' "$@"
}

case_unit_of_the_client() {
	policy <<-END
		allow session
		allow device
		allow listen
		allow accept
		allow connect user bob unit transfer-*.service
		reject connect reason "not from that unit"
	END
	serve server alice $A 7471 -P
	fails 3 ping_once bob $A -p 7471
	assert_contains "$(cat words)" "not from that unit"
	assert systemd-run --quiet --wait --uid=bob --unit=transfer-1 rdmabroker-ping -c -a $A -p 7471
	fails 3 systemd-run --quiet --wait --uid=bob --unit=other rdmabroker-ping -c -a $A -p 7471
	fails 3 systemd-run --quiet --wait --uid=dave --unit=transfer-2 \
		rdmabroker-ping -c -a $A -p 7471
	stop server
}

case_admin_by_policy() {
	policy <<-END
		allow admin user dave
	END
	as dave rdmabrokerctl status
	as dave rdmabrokerctl rules
	fails 1 as bob rdmabrokerctl rules
	# Root needs no rule.
	policy <<-END
		reject any
	END
	rdmabrokerctl status
	fails 1 as dave rdmabrokerctl status
	# A rule for "any" makes nobody an admin, and an observer cannot change anything.
	policy <<-END
		allow observe user bob
		allow any
	END
	fails 1 as dave rdmabrokerctl status
	for verb in status rules list metrics; do
		as bob rdmabrokerctl $verb
	done
	fails 1 as bob rdmabrokerctl drain --cancel
	fails 1 as bob rdmabrokerctl reload
}

case_limits_at_the_peers_broker() {
	policy <<-END
		allow session
		allow device
		allow listen
		allow connect
		allow accept port 7471 max 1
		allow accept
	END
	serve server alice $A 7471 -P
	connect one bob $A 7471
	mark_journal
	fails 3 ping_once dave $A -p 7471
	assert_contains "$(cat words)" "rejected by policy of the peer's broker (busy)"
	await "journal | grep -q 'max 1 is reached'"
	assert_eq "$(rule_field "allow accept port 7471 max 1" now)" 1
	stop one
	await "ping_once dave $A -p 7471"
	assert_eq "$(rule_field "allow accept port 7471 max 1" rejected)" 0
	assert test "$(rule_field "allow accept port 7471 max 1" busy)" -ge 1
	stop server
}

case_limits_at_the_clients_broker() {
	policy <<-END
		allow session user bob max-per-user 1
		allow session
		allow device
		allow listen max 1
		allow accept
		allow connect user bob max 1
		allow connect
	END
	serve server alice $A 7471 -P
	fails 3 as dave rdmabroker-ping -s -a $A -p 7472
	assert_contains "$(cat words)" "max 1 is reached"
	connect one bob $A 7471
	fails 3 ping_once bob $A -p 7471
	assert_contains "$(cat words)" "max-per-user 1 is reached"
	stop one
	ping_once bob $A -p 7471
	stop server
}

case_quotas() {
	policy <<-END
		allow any
	END
	cat > /etc/rdmabroker/rdmabrokerd.conf.d/50-test.conf <<-END
		[Limits]
		SessionsPerUser=2
		ListenersPerUser=1
	END
	reload "policy reloaded"
	serve first alice $A 7471 -P
	fails 3 as alice rdmabroker-ping -s -a $A -p 7472
	assert_contains "$(cat words)" "ListenersPerUser="
	assert_contains "$(as alice rdmabrokerctl limits | tr -s ' ')" "listeners 1 1 ListenersPerUser="
	assert_contains "$(as bob rdmabrokerctl limits | tr -s ' ')" "listeners 0 1 ListenersPerUser="
	serve second bob $A 7473 -P
	connect one bob $A 7471
	fails 3 ping_once bob $A -p 7471
	assert_contains "$(cat words)" "SessionsPerUser="
	ping_once dave $A -p 7473
	stop one
	ping_once bob $A -p 7471
	stop first
	stop second
	rm /etc/rdmabroker/rdmabrokerd.conf.d/50-test.conf
}

case_audit() {
	policy <<-END
		allow  session
		allow  device
		allow  listen user alice
		allow  connect log
		reject accept port 7472 reason "in repair"
		allow  accept max 1
	END
	serve first alice $A 7471 -P
	serve second alice $A 7472 -P
	mark_journal
	connect one bob $A 7471
	fails 3 ping_once bob $A -p 7472
	fails 3 ping_once bob $A -p 7471
	await "journal | grep -q 'max 1 is reached'"
	stop one
	journal
	assert_eq "$(journal_fields denied OPERATION PORT DEVICE UID RULE REASON)" \
		"accept 7472 rxe0 $(id -u alice) $RULES:5 in repair"
	assert_eq "$(journal_fields busy OPERATION PORT UID RULE LIMIT)" \
		"accept 7471 $(id -u alice) $RULES:6 max 1"
	assert_eq "$(journal_fields allowed OPERATION UID | sort -u)" "connect $(id -u bob)"
	assert_contains "$(journal_fields denied PEER)" "$B:"
	# The catalog explains each code.
	journalctl --update-catalog
	for code in denied busy allowed; do
		assert_contains "$(journalctl -x RDMABROKER_CODE=$code)" "man:rdmabroker.rules(5)"
	done
	# A user who retries again and again must not fill the journal.
	mark_journal
	begin=$SECONDS
	for _ in {1..30}; do
		fails 3 as carol rdmabroker-ping -s -a $A -p 7480
	done > /dev/null
	assert test "$(journal_fields no-rule UID | wc -l)" -le \
		$((10 * ((SECONDS - begin) / 10 + 2)))
	stop first
	stop second
}

case_enforce() {
	policy <<-END
		allow any
	END
	cat > /etc/rdmabroker/rdmabrokerd.conf.d/50-test.conf <<-END
		[Daemon]
		OnReload=enforce
	END
	reload "policy reloaded"
	serve server alice $A 7471 -P
	connect one bob $A 7471
	as dave rdmabroker-ping -c -a $A -p 7471 -v > two 2>&1 &
	pid[two]=$!
	await_line server "event: RDMABROKER_EVENT_CONNECT_REQUEST" 2
	policy <<-END
		allow session
		allow device
		allow listen
		allow accept
		allow connect user dave
	END
	await_line one "event: RDMABROKER_EVENT_DISCONNECTED"
	finish two
	policy <<-END
		reject any
	END
	finish server 1
	assert_contains "$(cat server)" "event: RDMABROKER_EVENT_LOST"
	assert_eq "$(status_field "['sessions']")" 1
	rm /etc/rdmabroker/rdmabrokerd.conf.d/50-test.conf
}

# Reloads the policy 1,000 times: connections stay, no request is refused, and nothing is leaked.
case_reloads_under_load() {
	local before result=0
	policy <<-END
		allow any max 100
	END
	# librdmacm opens the devices with the first id, and keeps them open.
	serve warm alice $A 7471
	ping_once bob $A -p 7471
	finish warm
	await "[ \$(status_field \"['sessions']\") = 1 ]"
	before=$(holdings)
	serve server alice $A 7471 -P
	(
		until [ -e enough ]; do
			ping_once bob $A -p 7471 -C 20 || exit 1
			echo round
		done
	) > rounds 2>&1 &
	load=$!
	await_line rounds round
	calls reloads /etc/rdmabroker/policy.d/10-other.rules 1000
	await_line rounds round 20
	touch enough
	wait $load || result=$?
	[ $result = 0 ] || tail -n 20 rounds
	assert_eq $result 0
	assert_eq "$(grep -c '20 rounds of 64 bytes verified' rounds)" "$(grep -c '^round$' rounds)"
	stop server
	(await "[ \"\$(holdings)\" = '$before' ]") || fail "more or less than before: $(holdings)"
	# That of rdmabrokerctl does not count.
	assert_eq "$(rule_field "allow any max 100" now)" 0
	rm /etc/rdmabroker/policy.d/10-other.rules
}

# names user|group: prints the names of users or groups in the rules of $file.
names() {
	grep -v '^#' "$file" | grep -o "\<$1 [a-z][a-z,-]*" | sed "s/$1 //" | tr ',' '\n' | sort -u || true
}

case_explain() {
	rm -f /etc/rdmabroker/policy.d/*.rules
	for example in single-host storage-target hpc-cluster; do
		echo "--- $example"
		file=$share/examples/$example.rules
		names group | while read -r group; do
			getent group "$group" > /dev/null || groupadd --system "$group"
		done
		names user | while read -r user; do
			id "$user" > /dev/null 2>&1 || useradd --system --no-user-group "$user"
		done
		server=$(names user | sed '/^root$/d' | head -n 1)
		server=${server:-alice}
		policy < "$file"
		rdmabrokerctl check
		rdmabrokerctl rules --full
		for facts in "connect --user alice --peer $B --port 4420" \
			"listen --user alice --port 7471" "listen --user $server --port 4420" \
			"accept --user $server --local $A --peer $B --port 4420" \
			"accept --user $server --local $A --peer 10.1.2.3 --port 4420"; do
			echo "$example: explain $facts"
			# shellcheck disable=SC2086
			rdmabrokerctl explain $facts --device rxe0 --ps tcp 2> words || [ $? = 3 ] ||
				fail "$(cat words)"
		done | show
	done
	policy <<-END
		allow connect user bob peer 10.9.0.0/24 port 7471 tos-max 32
	END
	assert_contains "$(rdmabrokerctl explain connect --user bob --peer $A --port 7471)" "$RULES:1"
	fails 3 rdmabrokerctl explain connect --user bob --peer 10.8.0.1 --port 7471
	assert_contains "$(cat words)" "no-rule"
}

case_rules() {
	policy <<-END
		allow session
		allow connect
	END
	rdmabrokerctl rules
	sessions=$(rule_field "allow session" allowed)
	rejects=$(rule_field "" rejected)
	fails 3 as bob rdmabroker-ping -s -a $A -p 7471
	# rdmabrokerctl only observes, which is not counted.
	assert_eq "$(rule_field "allow session" allowed)" $((sessions + 1))
	assert_eq "$(rule_field "" rejected)" $((rejects + 1))
}

# listed OPTION... -- FIELD...: prints these fields of the ids that `list OPTION...` prints.
listed() {
	local options=()
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	rdmabrokerctl list --json "${options[@]}" | python3 -c '
import json, sys
for entry in json.load(sys.stdin)["ids"]:
	print(*[entry[field] for field in sys.argv[1:]])' "$@"
}

case_list() {
	policy <<-END
		allow session
		allow device
		allow listen
		allow accept
		allow connect user bob tos 104
	END
	serve server alice $A 7471 -P
	connect one bob $A 7471
	rdmabrokerctl list
	assert_eq "$(listed --listeners -- user state local rule)" \
		"alice listening $A:7471 $RULES:3"
	assert_eq "$(listed --user bob -- state peer device tos rule)" \
		"established $A:7471 rxe1 104 $RULES:5"
	assert_eq "$(listed --user bob -- qpn)" "$(qp_number one)"
	assert_eq "$(listed --connections --port 7471 -- user | sort | tr '\n' ' ')" "alice bob "
	assert_eq "$(listed --peer $B -- user)" alice
	assert_eq "$(listed --user bob -- pid)" "$(pgrep -u bob rdmabroker-ping)"
	assert_contains "$(rdmabrokerctl list --sessions --user alice)" alice
	stop one
	await "[ -z \"\$(listed --user bob -- state)\" ]"
	fails 1 as bob rdmabrokerctl list
	stop server
}

case_kick() {
	policy <<-END
		allow session
		allow device
		allow listen
		allow accept
		allow connect
	END
	serve server alice $A 7471 -P
	serve other alice $A 7472 -P
	connect one bob $A 7471
	connect two dave $A 7472
	mark_journal
	# bob's connection ends at both sides, and dave's continues.
	rdmabrokerctl kick "$(listed --user bob -- session id | tr ' ' :)"
	await_line one "event: RDMABROKER_EVENT_DISCONNECTED"
	await_line server "event: RDMABROKER_EVENT_DISCONNECTED"
	await "journal | grep -q 'uid $(id -u bob), .* established, is ended by uid 0,'"
	assert_eq "$(listed --user dave --connections -- state)" established
	rdmabrokerctl kick "$(listed --user alice --listeners --port 7471 -- session)"
	finish server 1
	assert_contains "$(cat server)" "event: RDMABROKER_EVENT_LOST"
	await "journal | grep -q 'uid $(id -u alice), .* is ended by uid 0,'"
	fails 1 rdmabrokerctl kick 999999
	assert_contains "$(cat words)" "there is no session 999999"
	fails 1 as bob rdmabrokerctl kick 1
	# The exit status of bob's program does not matter.
	wait "${pid[one]}" || true
	stop two
	stop other
	await "[ \$(status_field \"['sessions']\") = 1 ]"
}

case_drain() {
	policy <<-END
		allow session
		allow device
		allow listen
		allow accept
		allow connect
	END
	serve server alice $A 7471 -P
	connect one bob $A 7471
	mark_journal
	fails 1 rdmabrokerctl drain --timeout 1
	assert_contains "$(cat words)" "connection"
	assert_contains "$(cat words)" "left after 1 s"
	await "journal | grep -q 'Draining started by uid 0, pid [0-9]*: new work is refused'"
	assert_eq "$(status_field "['draining']")" True
	assert_contains "$(rdmabrokerctl status)" "NEW WORK IS REFUSED"
	await "systemctl show -p StatusText rdmabrokerd | grep -q Draining"
	fails 3 ping_once dave $A -p 7471
	fails 3 as dave rdmabroker-ping -s -a $A -p 7472
	# Existing connections stay until they end by themselves.
	assert_eq "$(listed --user bob --connections -- state)" established
	rdmabrokerctl drain --timeout $patience > drained &
	draining=$!
	stop one
	wait $draining
	assert_contains "$(cat drained)" "drained: no connection is left"
	rdmabrokerctl drain --cancel
	ping_once dave $A -p 7471
	fails 1 as bob rdmabrokerctl drain
	stop server
}

case_metrics() {
	policy <<-END
		allow session
		allow device
		allow listen
		allow accept
		allow connect
	END
	serve server alice $A 7471 -P
	ping_once bob $A -p 7471
	rdmabrokerctl metrics > metrics
	cat metrics
	assert grep -qx 'rdmabroker_listeners 1' metrics
	assert grep -qx '# EOF' metrics
	for phase in "resolve addr" "resolve route" connect accept establish; do
		assert grep -q "^rdmabroker_phase_seconds_count{phase=\"$phase\"} [1-9]" metrics
	done
	fails 1 as bob rdmabrokerctl metrics
	stop server
}

# scrape USER ADDRESS: USER fetches the metrics into the file metrics. Checks their format.
scrape() {
	as "$1" bash -c "$(declare -f fetch_metrics); fetch_metrics $2" > metrics
	assert openmetrics < metrics
}

exporter_journal() {
	journalctl -u rdmabroker-exporter -o cat --after-cursor="$journal_mark"
}

# The exporter's installed unit. The user who fetches the metrics is neither an observer nor an admin.
case_metrics_exporter() {
	local socket=/run/systemd/system/rdmabroker-exporter.socket

	policy <<-END
		allow session
		allow device
		allow listen
		allow accept
		allow connect
	END
	mark_journal
	systemctl start rdmabroker-exporter
	assert_eq "$(stat -c %U "/proc/$(systemctl show --property=MainPID --value rdmabroker-exporter)")" \
		rdmabroker-exporter
	# Without a rule the exporter cannot observe. The journal contains the rule to add.
	scrape carol 9471
	assert grep -qx 'rdmabroker_up 0' metrics
	await "exporter_journal | grep -qF 'the rule \"allow observe user rdmabroker-exporter\"'"
	echo 'allow observe user rdmabroker-exporter' >> "$RULES"
	reload "policy reloaded"
	await "exporter_says 'rdmabroker_up 1'"
	fails 1 as rdmabroker-exporter rdmabrokerctl drain

	serve server alice $A 7471 -P
	ping_once bob $A -p 7471
	await "exporter_says 'rdmabroker_listeners 1'"
	scrape carol 9471
	assert grep -q '^rdmabroker_phase_seconds_count{phase="establish"} [1-9]' metrics
	# The metrics contain no addresses, users or programs of clients.
	fails 1 grep -E '10\.9\.0|alice|bob|ping' metrics
	stop server

	# The exporter keeps running while the broker is absent, and when the broker restarts.
	systemctl stop rdmabrokerd.socket rdmabrokerd.service
	await "exporter_says 'rdmabroker_up 0'"
	scrape carol 9471
	systemctl start rdmabrokerd.socket rdmabrokerd.service
	await "exporter_says 'rdmabroker_up 1'"
	scrape carol 9471
	assert_contains "$(cat metrics)" 'rdmabroker_rules 6'
	kill -KILL "$(daemon_pid)"
	await "exporter_says 'rdmabroker_up 1'"
	assert_eq "$(systemctl show --property=NRestarts --value rdmabroker-exporter)" 0
	systemctl stop rdmabroker-exporter
	assert_eq "$(systemctl is-failed rdmabroker-exporter || true)" inactive
	assert_eq "$(ss -Hnap | grep -w rdmabrokerd | grep -vE '^(u_|nl)' || true)" ""

	# Only one group can use this socket, which systemd passes to the exporter.
	printf '[Socket]\nListenStream=/run/metrics-test.sock\nSocketGroup=bob\nSocketMode=0660\n' > $socket
	systemctl daemon-reload
	systemctl start rdmabroker-exporter.socket
	scrape bob /run/metrics-test.sock
	assert grep -qx 'rdmabroker_up 1' metrics
	fails 1 as carol bash -c "$(declare -f fetch_metrics); fetch_metrics /run/metrics-test.sock"
	assert_contains "$(cat words)" "PermissionError"
	systemctl stop rdmabroker-exporter.socket rdmabroker-exporter.service
	rm -f $socket /run/metrics-test.sock
	systemctl daemon-reload
}

# Two programs of librdmacm with the drop-in: the events come from the broker.
case_events() {
	policy <<-END
		allow session
		allow device
		allow listen
		allow accept
		reject connect user dave reason "not dave"
		allow connect
	END
	: > events
	rdmabrokerctl events > events 2>&1 &
	watcher=$!
	await_line events "REASON"
	as alice "${through[@]}" rping -s -a $A -p 7471 -C 3 > server 2>&1 &
	server=$!
	await_line events " listen "
	run_rping as bob "${through[@]}" rping -c -a $A -p 7471 -C 3
	wait $server || true
	fails 3 ping_once dave $A -p 7471
	await_line events " not dave (reject connect user dave "
	await "grep -q '  bob .*  session closed ' events && grep -q '  alice .*  session closed ' events"
	kill -TERM $watcher
	status=0
	wait $watcher || status=$?
	show < events
	assert_eq "$status" 0
	assert grep -q "  alice .*  listen  *allowed .* $A:7471 .* $RULES:3 " events
	assert grep -q "  bob .*  connect  *allowed .* $A:7471 .* $RULES:6 " events
	assert grep -q "  alice .*  accept  *allowed .* $RULES:4 " events
	assert grep -q "  alice .*  connect-request " events
	assert grep -q "  bob .*  connect-response .* rxe1 " events
	assert grep -q "  alice .*  established " events
	# rping's client may end before its own event is sent, so bob's event is not checked.
	assert grep -q "  alice .*  disconnected " events
	assert grep -q "  dave .*  connect  *rejected .* $RULES:5 .* not dave (reject connect user dave " events
	# JSON output has one object on each line, and ends after the requested number.
	rdmabrokerctl events --json --kind session --user bob --count 1 > json &
	watcher=$!
	await "as bob rdmabroker-ping -c -a $A -p 7471; [ -s json ]"
	wait $watcher
	assert_eq "$(python3 -c 'import json; d = json.load(open("json")); print(d["user"], d["kind"], d["lost"])')" \
		"bob session 0"
	fails 1 as bob rdmabrokerctl events
}

case_reload_over_the_wire() {
	policy <<-END
		allow session
	END
	echo "alow any" > "$RULES"
	fails 1 rdmabrokerctl reload
	assert_contains "$(cat words)" "$RULES:1:1"
	assert_contains "$(cat words)" "did you mean 'allow'?"
	fails 1 rdmabrokerctl check
	echo "allow session" > "$RULES"
	rdmabrokerctl reload
	rdmabrokerctl check
	fails 1 as bob rdmabrokerctl reload
	fails 1 as bob rdmabrokerctl reload --dry-run
}

# What was refused is kept over a restart, and joined by peers and ports as a rule would be.
case_refusals() {
	policy <<-END
		allow session user alice,bob
		allow device user alice,bob
		allow connect user bob
		warn listen user alice
		reject accept user alice reason "not yet"
	END
	serve server alice $A 7471 -P
	as bob rdmabroker-ping -c -a $A -p 7471 && fail "bob is served"
	systemctl restart rdmabrokerd
	as bob rdmabroker-ping -c -a $A -p 7471 && fail "bob is served"
	as carol rdmabroker-ping -c -a $A -p 7471 && fail "carol is served"
	rdmabrokerctl refusals | tr -s " " > refused
	assert_contains "$(grep accept refused)" " 2 "
	assert_contains "$(grep accept refused)" "rejected accept alice"
	assert_contains "$(grep accept refused)" "7471 $A $B"
	assert_contains "$(grep carol refused)" "no-rule session"
	assert_contains "$(rdmabrokerctl refusals --warned)" "listen"
	assert_lacks "$(rdmabrokerctl refusals --warned)" "accept"
	fails 1 as bob rdmabrokerctl refusals
	fails 1 as bob rdmabrokerctl refusals --clear
	rdmabrokerctl refusals --clear
	assert_lacks "$(rdmabrokerctl refusals)" "carol"
	stop server
}

# What warn rules have allowed is allowed by the rules that are made of it, and nothing else is.
case_suggest() {
	policy <<-END
		warn any user alice,bob
	END
	serve server alice $A 7471 -P
	as bob rdmabroker-ping -c -a $A -p 7471
	rdmabrokerctl suggest --kernel > held
	assert_lacks "$(cat held)" "allow"
	rdmabrokerctl suggest > "$RULES.new"
	rdmabrokerctl suggest --tests > suggested.tests
	cat "$RULES.new"
	rdmabrokerctl check "$RULES.new"
	mkdir rules
	cp "$RULES.new" rules/50-suggested.rules
	rdmabrokerd --check --policy-dir "$PWD/rules" --test suggested.tests
	# All run in the guest's service.
	assert_contains "$(cat "$RULES.new")" "allow listen user alice unit rdmabroker-guest.service port 7471"
	assert_contains "$(cat "$RULES.new")" "allow connect user bob unit rdmabroker-guest.service peer $A/32 port 7471"
	mv "$RULES.new" "$RULES"
	rdmabrokerctl reload --dry-run > tried
	assert_lacks "$(cat tried)" "NOT ALLOWED"
	rdmabrokerctl reload
	as bob rdmabroker-ping -c -a $A -p 7471
	fails 3 ping_once bob $A -p 7472
	stop server
}

# What the rules of a dry run would not allow is shown, and goes on.
case_reload_dry_run() {
	policy <<-END
		allow any user alice,bob
	END
	serve server alice $A 7471
	echo "allow session user alice,bob" > "$RULES"
	rdmabrokerctl reload --dry-run > tried
	assert_contains "$(cat tried)" "1 rule would be in force"
	assert_contains "$(grep listening tried)" "listen on 10.9.0.1:7471"
	assert_contains "$(grep listening tried)" "no-rule"
	ping_once bob $A -p 7471
	finish server
}

product_up
mkdir -p /etc/rdmabroker/rdmabrokerd.conf.d
run_cases "$@"
