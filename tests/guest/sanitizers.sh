# shellcheck shell=bash disable=SC2034,SC2154
# SPDX-License-Identifier: BSD-2-Clause
# For lib.sh: functions for a product that was built with SAN=address,undefined. A case in which a sanitizer reports
# an error fails. Most reports are files in $reports. The others are in the journal or in files of the case, because
# UndefinedBehaviorSanitizer together with AddressSanitizer can write only to stderr, and because services of systemd
# do not have the suite's environment.

reports=/run/sanitizers

# through: the command that runs a program of librdmacm with the drop-in. If the drop-in has AddressSanitizer, the
# program needs it too, and Debian's programs do not have it. Therefore the library $asan is preloaded. Leaks of the
# programs themselves are ignored.
asan=
through=(rdmabrokerctl run --)

# sanitized [DAEMON]: whether DAEMON has sanitizers, by default the installed one.
sanitized() {
	grep -qaE 'lib(asan|ubsan)\.so' "${1:-/usr/sbin/rdmabrokerd}" 2> /dev/null
}

# verify_asan_link_order=0: the drop-in is before libasan in LD_PRELOAD. This is safe, because the drop-in defines
# only names of librdmacm. use_sigaltstack=0: when a cancelled thread unregisters its signal stack, AddressSanitizer
# would report its own accesses to that stack as errors.
sanitizer_options() {
	echo "log_path=$reports/report:log_exe_name=1:print_stacktrace=1:verify_asan_link_order=0:quarantine_size_mb=16:use_sigaltstack=0"
}

# Prints a drop-in file that weakens a unit's sandbox only as far as the sanitizers need it: the folder for reports,
# and ptrace(), by which LeakSanitizer stops the process at its end to find pointers in registers. disable_coredump=0:
# otherwise the sanitizers would set RLIMIT_CORE, which the sandbox does not allow.
# The suppression is for the 16 bytes of librdmacm's protection domain, which librdmacm cannot free if a device is
# removed while ids are bound to it (daemon/fabric/context.c). They are allocated in librxe. The daemon itself does
# not use librxe, so the suppression hides no leak of the daemon.
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

# Creates the files that the units need if the product has sanitizers. This is possible before the units are
# installed.
sanitizers_prepare() {
	local unit
	mkdir -p $reports
	chmod 1777 $reports
	for unit in rdmabrokerd rdmabroker-exporter; do
		mkdir -p /run/systemd/system/$unit.service.d
		sanitizer_dropin > /run/systemd/system/$unit.service.d/90-sanitizers.conf
	done
	systemctl daemon-reload
}

sanitizers_begin() {
	sanitizers_prepare
	echo "The product has sanitizers: $(grep -oaE 'lib(asan|ubsan)\.so' /usr/sbin/rdmabrokerd | sort -u | xargs)."
	echo "90-sanitizers.conf of rdmabrokerd.service and rdmabroker-exporter.service:"
	sanitizer_dropin | sed 's/^/    /'
	ASAN_OPTIONS=$(sanitizer_options)
	UBSAN_OPTIONS=${ASAN_OPTIONS%%:verify*}
	export ASAN_OPTIONS UBSAN_OPTIONS
	asan=$(ldd /usr/sbin/rdmabrokerd | sed -n 's/^\s*\(libasan[^ ]*\) .*/\1/p')
	[ -z "$asan" ] ||
		through=(env "LD_PRELOAD=$asan" "ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0" rdmabrokerctl run --)
}

# sanitizer_reports CURSOR FOLDER: prints the reports in $reports, in the journal since CURSOR, and in the files of
# FOLDER. Removes those in $reports. Fails if there are no reports.
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

# The last case. It checks for reports itself: the daemon must have no leaks at its end, and errors must be reported.
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
	# AddressSanitizer has to report this signal. That shows that the daemon can write reports out of its sandbox.
	systemctl start rdmabrokerd.socket rdmabrokerd.service
	systemctl kill --signal=SEGV rdmabrokerd
	await "cat $reports/report.rdmabrokerd.* | grep -q SEGV" 30
	systemctl stop rdmabrokerd.socket rdmabrokerd.service
	rm $reports/report.rdmabrokerd.*
}
