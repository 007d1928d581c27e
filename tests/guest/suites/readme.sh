#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The first commands of README's section INSTALL, and all commands of FIRST POLICY and WHO IS THE PEER, with
# addresses replaced. carol, who is in no group and can use sudo, runs them. At the start the product is not installed.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../broker.sh
. "$(dirname "$0")/../broker.sh"

README=$share/README
WHO=carol
# block SECTION N: prints the Nth block of commands in a section of README. Commands are indented by six blanks.
block() {
	awk -v section="$1" -v wanted="$2" '
		/^[A-Z]/ { on = $0 == section; n = 0; inside = 0; next }
		!on { next }
		/^      / { if (!inside) n++; inside = 1; if (n == wanted) print; next }
		/[^ ]/ { inside = 0 }
	' "$README"
}

# The guest has neither sudo nor a compiler. The real `make install` has installed the files into a folder.
make_stand_ins() {
	mkdir stand-ins
	printf '#!/bin/sh\nexec "$@"\n' > stand-ins/sudo
	cat > stand-ins/make <<-END
		#!/bin/sh
		case "\$*" in
		'' | build-packages) ;;
		install) tar -C $share/dest --owner=0 --group=0 -c . |
			tar -C / -x --keep-directory-symlink --no-overwrite-dir ;;
		*) echo "make: no rule to make target '\$*'" >&2; exit 2 ;;
		esac
	END
	chmod 755 stand-ins/*
}

# typed: runs the commands from stdin in a shell that stops at the first failure.
typed() {
	cat > commands
	assert [ -s commands ]
	show < commands
	USER=$WHO PATH=$PWD/stand-ins:$PATH bash -eu -o pipefail commands
}

# Runs COMMAND, a server, as the user for whom README is written.
serve_as_written() {
	# shellcheck disable=SC2086
	as $WHO $1 > server 2>&1 &
	pid[server]=$!
	await_line server "listening"
}

case_install() {
	make_stand_ins
	assert test ! -e /usr/sbin/rdmabrokerd
	block INSTALL 1 | typed
	assert_eq "$(systemctl is-active rdmabrokerd.service)" active
	assert_eq "$(systemctl is-enabled rdmabrokerd.socket)" enabled
	# README promises: "only root and the broker can open rdma_cm, and the policy rejects everything"
	assert_eq "$(stat -c '%U %a' /dev/infiniband/rdma_cm)" "rdmabroker 600"
	fails 3 as $WHO rdmabroker-ping -s -a $A -p 7471
	assert_contains "$(cat words)" "refused by the broker"
}

case_first_policy() {
	local command status sanitizing=()
	make_stand_ins
	# If this case is run alone, the product is not installed yet.
	[ -e /usr/sbin/rdmabrokerd ] || install_product
	systemctl start rdmabrokerd.socket rdmabrokerd.service
	block "FIRST POLICY" 1 | typed
	assert_contains " $(as $WHO id -nG) " " rdma "
	assert_eq "$(status_field "['policy']['rules']")" 3
	assert_eq "$(status_field "['warnings']")" "[]"
	# Members of the group can use RDMA, but are no admins. Other users cannot use RDMA.
	fails 3 as dave rdmabroker-ping -s -a $A -p 7471
	fails 1 as $WHO rdmabrokerctl drain --cancel
	serve storage $WHO $A 4420 -P
	fails 3 ping_once alice $A -p 4420
	assert_contains "$(cat words)" "not a storage host"
	stop storage

	block "TEST A POLICY" 1 | typed
	sed -i 's/reject accept uid 1001/allow accept uid 1001/' 60-mine.tests
	fails 1 /usr/sbin/rdmabrokerd --check --test 60-mine.tests
	assert_contains "$(cat words)" "60-mine.tests:3:7: the test fails: it is rejected, because no rule matches"

	# A program of librdmacm needs the drop-in's sanitizers. They are known only now, because the product was not
	# installed at the suite's start.
	! sanitized || sanitizers_begin
	[ -z "$asan" ] || sanitizing=(env "LD_PRELOAD=$asan" "ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0")
	# Runs README's remaining commands. Those that do not end by themselves are killed.
	block "FIRST POLICY" 2 | sed 's/  *#.*//; s/^ *//' > lines
	assert [ -s lines ]
	show < lines
	assert grep -q '^rdmabroker-ping -s' lines
	while read -r command; do
		command=${command//ADDR/$A}
		status=0
		case $command in
		"rdmabroker-ping -s"*)
			serve_as_written "$command"
			continue ;;
		*events | *"rping -s") seconds=30 ;; # ends only so
		*) seconds=$patience ;;
		esac
		case $command in
		sudo*) PATH=$PWD/stand-ins:$PATH timeout "$seconds" bash -c "$command" > words 2>&1 || status=$? ;;
		*) as $WHO "${sanitizing[@]}" timeout "$seconds" bash -c "$command" > words 2>&1 || status=$? ;;
		esac
		echo "--- $command ($status):"
		cat words
		case $command in
		*events | *"rping -s") assert_eq $status 124 ;;
		*) assert_eq $status 0 ;;
		esac
	done < lines
	finish server
}

# README's commands, with both hosts' addresses on this one: it asks itself.
case_peer() {
	local command status
	make_stand_ins
	[ -e /usr/sbin/rdmabrokerd ] || install_product
	systemctl start rdmabrokerd.socket rdmabrokerd.service
	policy <<-END
		allow session
	END
	block "WHO IS THE PEER" 1 | typed
	assert_eq "$(id -u rdmabroker-peerd)" 480
	await "journalctl -b -u rdmabroker-peerd -o cat | grep -q 'rdmabrokerd gives its questions'"
	block "WHO IS THE PEER" 2 | sed 's/  *#.*//; s/^ *//' > lines
	show < lines
	assert grep -q '^rdmabroker-ping -s' lines
	assert grep -q '^sudo -u bob rdmabroker-ping -c' lines
	mark_journal
	while read -r command; do
		command=${command//ADDR/$A}
		status=0
		case $command in
		"rdmabroker-ping -s"*)
			serve_as_written "$command"
			continue ;;
		"sudo -u bob "*) as bob timeout $patience bash -c "${command#sudo -u bob }" > words 2>&1 || status=$? ;;
		"sudo journalctl "*) PATH=$PWD/stand-ins:$PATH bash -c "$command" > words 2>&1 || status=$? ;;
		*) as $WHO timeout $patience bash -c "$command" > words 2>&1 || status=$? ;;
		esac
		echo "--- $command ($status):"
		cat words
		case $command in
		"sudo -u bob "*)
			assert_eq $status 3
			assert_contains "$(cat words)" "rejected by policy of the peer's broker (no-rule)" ;;
		*) assert_eq $status 0 ;;
		esac
	done < lines
	assert_contains "$(journal)" "rejected by default, because no rule matches; the peer is uid 1001 in "
	assert_lacks "$(journal)" "is not known"
	stop server
	systemctl disable --now rdmabroker-peerd.socket rdmabroker-peerd munge
}

fabric_up
run_cases "$@"
