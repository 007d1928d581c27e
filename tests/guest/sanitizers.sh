# shellcheck shell=bash disable=SC2034,SC2154
# SPDX-License-Identifier: BSD-2-Clause
# For lib.sh: a product that was built with SAN=address,undefined. What a sanitizer finds is a file below
# $reports, and fails the case in which it comes. UndefinedBehaviorSanitizer beside AddressSanitizer knows only
# stderr, and a program of systemd's has not the suite's environment: theirs are in the journal or in the files
# of the case.

reports=/run/sanitizers

# How a program of librdmacm gets the drop-in. With sanitizers it has to have theirs too, which Debian's have not;
# and what those do not free themselves is not ours.
asan=
through=(rdmabrokerctl run --)

# sanitized [DAEMON]: does it have sanitizers? Default: the installed one.
sanitized() {
	grep -qaE 'lib(asan|ubsan)\.so' "${1:-/usr/sbin/rdmabrokerd}" 2> /dev/null
}

# The drop-in is before libasan in LD_PRELOAD, and has no names but those of librdmacm: verify_asan_link_order=0.
# When a thread has been cancelled AddressSanitizer takes what it has on its stack itself for wild, as it gives
# its signal stack back: use_sigaltstack=0.
sanitizer_options() {
	echo "log_path=$reports/report:log_exe_name=1:print_stacktrace=1:verify_asan_link_order=0:quarantine_size_mb=16:use_sigaltstack=0"
}

# The unit's sandbox, loosened by what the sanitizers need and by no more: where reports go; ptrace(), with
# which LeakSanitizer stops the process at its end to look for pointers in its registers. They would set
# RLIMIT_CORE, which the sandbox refuses to the daemon: disable_coredump=0.
# What librdmacm leaves of a device that was unplugged while ids were bound to it is not ours: the 16 bytes of its
# protection domain, which it cannot free any more (daemon/fabric/context.c). They are from librxe, of which the
# daemon itself wants nothing.
sanitizer_dropin() {
	echo leak:librxe- > $reports/suppressions
	cat <<-END
		[Service]
		Environment=ASAN_OPTIONS=$(sanitizer_options):disable_coredump=0
		Environment=LSAN_OPTIONS=suppressions=$reports/suppressions:print_suppressions=0
		Environment=UBSAN_OPTIONS=$(sanitizer_options | sed 's/:verify.*//')
		ReadWritePaths=$reports
		SystemCallFilter=ptrace
	END
}

sanitizers_folder=/run/systemd/system/rdmabrokerd.service.d

# What a unit with sanitizers needs. The unit may be installed later.
sanitizers_prepare() {
	mkdir -p $reports $sanitizers_folder
	chmod 1777 $reports
	sanitizer_dropin > $sanitizers_folder/90-sanitizers.conf
	systemctl daemon-reload
}

sanitizers_begin() {
	sanitizers_prepare
	echo "The product has sanitizers: $(grep -oaE 'lib(asan|ubsan)\.so' /usr/sbin/rdmabrokerd | sort -u | xargs)."
	echo "$sanitizers_folder/90-sanitizers.conf:"
	sed 's/^/    /' $sanitizers_folder/90-sanitizers.conf
	ASAN_OPTIONS=$(sanitizer_options)
	UBSAN_OPTIONS=${ASAN_OPTIONS%%:verify*}
	export ASAN_OPTIONS UBSAN_OPTIONS
	asan=$(ldd /usr/sbin/rdmabrokerd | sed -n 's/^\s*\(libasan[^ ]*\) .*/\1/p')
	[ -z "$asan" ] ||
		through=(env "LD_PRELOAD=$asan" "ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0" rdmabrokerctl run --)
}

# sanitizer_reports CURSOR FOLDER: prints what was found since, and forgets what is in $reports. Fails if there is
# nothing.
sanitizer_reports() {
	local file found=1 words='(Address|Leak|UndefinedBehavior)Sanitizer[: ]|runtime error:'

	for file in "$reports"/report*; do
		[ -e "$file" ] || continue
		echo "${file##*/}:"
		cat "$file"
		rm "$file"
		found=0
	done
	! journalctl -o cat --after-cursor="$1" | grep -aE -A 20 "$words" || found=0
	! grep -rahE -A 20 "$words" "$2" || found=0
	return $found
}

journal_cursor() {
	journalctl -n 0 --show-cursor | sed -n 's/^-- cursor: //p'
}

# The last case, which looks itself: what the daemon leaves at its end, and that errors would have been seen.
case_sanitizers() {
	local what errors=()

	mkdir none
	systemctl stop rdmabrokerd.socket rdmabrokerd.service
	! sanitizer_reports "$journal_began" none || fail "of the daemon's end"
	assert_eq "$(systemctl show --property=Result --value rdmabrokerd)" success

	mkdir probe
	[ -z "$asan" ] || errors+=(leak overflow)
	! grep -qa 'libubsan\.so' /usr/sbin/rdmabrokerd || errors+=(undefined)
	for what in "${errors[@]}"; do
		! as bob sanitizer-probe $what 2> probe/errors || fail "sanitizer-probe $what ended well"
		sanitizer_reports "$journal_began" probe > report || fail "no report of sanitizer-probe $what"
		assert_contains "$(cat report)" sanitizer-probe
		rm report probe/errors
	done

	[ -n "$asan" ] || return 0
	# A signal that AddressSanitizer reports: the daemon's own can leave its sandbox.
	systemctl start rdmabrokerd.socket rdmabrokerd.service
	systemctl kill --signal=SEGV rdmabrokerd
	await "cat $reports/report.rdmabrokerd.* | grep -q SEGV" 30
	systemctl stop rdmabrokerd.socket rdmabrokerd.service
	rm $reports/report.rdmabrokerd.*
}
