# shellcheck shell=bash disable=SC2034,SC2154
# SPDX-License-Identifier: BSD-2-Clause
# Functions for a product built with SAN=address,undefined: a case fails if a sanitizer reports an error. Most reports
# are files in $reports. Others are in the journal or in files of the case: UndefinedBehaviorSanitizer writes to
# stderr if AddressSanitizer is there, too, and services lack the suite's environment.

reports=/run/sanitizers

# through: runs a program of librdmacm with the drop-in. If the drop-in has AddressSanitizer, $asan is preloaded,
# because Debian's programs lack AddressSanitizer. Leaks of these programs are ignored.
asan=
through=(rdmabrokerctl run --)

# sanitized [DAEMON]: whether DAEMON, by default the installed one, has sanitizers
sanitized() {
	grep -qaE 'lib(asan|ubsan)\.so' "${1:-/usr/sbin/rdmabrokerd}" 2> /dev/null
}

# verify_asan_link_order=0: the drop-in precedes libasan in LD_PRELOAD, which is safe, because the drop-in defines
# only names of librdmacm. use_sigaltstack=0: when a cancelled thread unregisters its signal stack, AddressSanitizer
# would report its own accesses to that stack.
sanitizer_options() {
	echo "log_path=$reports/report:log_exe_name=1:print_stacktrace=1:verify_asan_link_order=0:quarantine_size_mb=16:use_sigaltstack=0"
}

# Prints a drop-in file that opens a unit's sandbox for the folder of reports, and for ptrace(), by which
# LeakSanitizer finds pointers in registers. disable_coredump=0: the sandbox does not allow the sanitizers to set
# RLIMIT_CORE. The suppression is for 16 bytes of librdmacm's protection domain, allocated in librxe, which librdmacm
# cannot free if a device is removed while ids are bound to it (daemon/fabric/context.c). The daemon does not use
# librxe.
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

# Creates the files that the units need if the product has sanitizers. The units need not be installed yet.
sanitizers_prepare() {
	local unit
	mkdir -p $reports
	chmod 1777 $reports
	for unit in rdmabrokerd rdmabroker-exporter rdmabroker-peerd; do
		mkdir -p /run/systemd/system/$unit.service.d
		sanitizer_dropin > /run/systemd/system/$unit.service.d/90-sanitizers.conf
	done
	systemctl daemon-reload
}

sanitizers_begin() {
	slower=3
	sanitizers_prepare
	echo "The product has sanitizers: $(grep -oaE 'lib(asan|ubsan)\.so' /usr/sbin/rdmabrokerd | sort -u | xargs)."
	echo "90-sanitizers.conf of rdmabrokerd.service, rdmabroker-exporter.service and rdmabroker-peerd.service:"
	sanitizer_dropin | sed 's/^/    /'
	ASAN_OPTIONS=$(sanitizer_options)
	UBSAN_OPTIONS=${ASAN_OPTIONS%%:verify*}
	export ASAN_OPTIONS UBSAN_OPTIONS
	asan=$(ldd /usr/sbin/rdmabrokerd | sed -n 's/^\s*\(libasan[^ ]*\) .*/\1/p')
	[ -z "$asan" ] ||
		through=(env "LD_PRELOAD=$asan" "ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0" rdmabrokerctl run --)
}

# sanitizer_reports CURSOR FOLDER: prints the reports in $reports, in the journal since CURSOR, and in FOLDER. Removes
# those in $reports. Fails without reports.
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

# The last case: the daemon must have no leaks at its end, and errors must be reported.
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
	# AddressSanitizer has to report this signal, although the daemon is in its sandbox.
	systemctl start rdmabrokerd.socket rdmabrokerd.service
	systemctl kill --signal=SEGV rdmabrokerd
	await "cat $reports/report.rdmabrokerd.* | grep -q SEGV"
	systemctl stop rdmabrokerd.socket rdmabrokerd.service
	rm $reports/report.rdmabrokerd.*
}
