# SPDX-License-Identifier: BSD-2-Clause
# bash completion for rdmabrokerctl(1). tests/ctl compares it with the program's own table.

# Offers those of the words $2... that begin with $1, which was typed and can have quotes. The words are data, and others have
# chosen some of them: compgen -W would run what is in $(), and readline quotes only names of files that exist. In quotes that
# are open, only words are offered that need none. For the locale C, what is not ASCII is quoted, too.
_rdmabrokerctl_offer() {
	local typed=${1#[\"\']} plain="" word LC_ALL=C
	while [[ $typed ]]; do
		typed=${typed#\\}
		plain+=${typed:0:1}
		typed=${typed:1}
	done
	for word in "${@:2}"; do
		[[ $word == "$plain"* && ($1 != [\"\']* || $word != *[!a-zA-Z0-9/_.:@-]*) ]] || continue
		compopt +o filenames 2>/dev/null
		printf -v word %q "$word"
		COMPREPLY+=("$word")
	done
}

# Completes the argument of the option $1, of which $2 is typed already. False: the option takes no argument.
_rdmabrokerctl_argument() {
	local names
	case $1 in
	--directory) mapfile -t COMPREPLY < <(compgen -d -- "$2") ;;
	--socket) mapfile -t COMPREPLY < <(compgen -f -- "$2") ;;
	--user | --peer-user)
		mapfile -t names < <(compgen -u)
		_rdmabrokerctl_offer "$2" "${names[@]}"
		;;
	--group | --peer-group)
		mapfile -t names < <(compgen -g)
		_rdmabrokerctl_offer "$2" "${names[@]}"
		;;
	--unit)
		mapfile -t names < <(systemctl list-units --full --no-legend --plain 2>/dev/null)
		_rdmabrokerctl_offer "$2" "${names[@]%% *}"
		;;
	--device)
		mapfile -t names < <(ls /sys/class/infiniband 2>/dev/null)
		_rdmabrokerctl_offer "$2" "${names[@]}"
		;;
	--ps) _rdmabrokerctl_offer "$2" tcp udp ib ipoib ;;
	--state) _rdmabrokerctl_offer "$2" idle bound listening resolving-addr addr-resolved resolving-route \
		route-resolved connecting responded request accepted established disconnecting disconnected \
		failed removed moved revoked ;;
	--kind) _rdmabrokerctl_offer "$2" decision cm session ;;
	--operation) _rdmabrokerctl_offer "$2" session device listen connect accept join observe admin ;;
	--outcome) _rdmabrokerctl_offer "$2" allowed rejected busy warned ;;
	--local | --peer | --port | --pkey | --path-pkey | --data | --timeout | --session | --count | --name | --by | --rules | --ids | --container | --pod | \
		--job | --peer-unit | --peer-job | --peer-prefix) COMPREPLY=() ;;
	--cgroup)
		mapfile -t names < <(cd /sys/fs/cgroup 2>/dev/null && compgen -d -P / -- "${2#/}")
		_rdmabrokerctl_offer "$2" "${names[@]}"
		;;
	*) return 1 ;;
	esac
}

_rdmabrokerctl() {
	local verbs="cdi check drain dropin events explain help kick limits list metrics nodes refusals reload restrict rules run site status suggest version"
	local operations="session device listen connect accept join observe admin"
	local words="--help --instance --json --socket --version"
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} verb="" i n=0 programs

	# The verb is the first word that is neither an option nor an option's argument; N words follow it.
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		--socket | --instance | --user | --group | --unit | --container | --pod | --job | --cgroup | --local | \
			--peer | --port | --device | --ps | --pkey | --path-pkey | --data | --state | --timeout | --kind | --operation | \
			--outcome | --peer-user | --peer-group | --peer-unit | --peer-job | --peer-prefix | --session | --count | --directory | --name | --by | --rules | --file | --ids | --since)
			((i++)) ;;
		-*) ;;
		*)
			if [[ $verb ]]; then
				((n++))
			else
				verb=${COMP_WORDS[i]}
			fi
			;;
		esac
	done

	COMPREPLY=()
	_rdmabrokerctl_argument "$prev" "$cur" && return

	case $verb in
	cdi) words+=" --dropin --node --directory --watch" ;;
	drain) words+=" --timeout --cancel" ;;
	events) words+=" --kind --operation --outcome --user --session --peer --port --count" ;;
	explain) words+=" --user --group --unit --container --pod --job --cgroup --local --peer --port --device --ps --pkey --path-pkey --data \
		--peer-user --peer-group --peer-unit --peer-job" ;;
	list) words+=" --sessions --listeners --connections --session --user --state --peer --port --watch" ;;
	nodes) words+=" --since --yes" ;;
	restrict) words+=" --rules --file --ids" ;;
	refusals) words+=" --clear --refused --since --user --warned" ;;
	suggest) words+=" --also --kernel --peer-prefix --prefer-groups --rejected --tests" ;;
	reload) words+=" --dry-run" ;;
	rules) words+=" --full" ;;
	site) words+=" --name --directory --dry-run --unless-held --again --by" ;;
	esac
	if [[ $cur != -* ]]; then
		words=
		case $verb in
		"") words=$verbs ;;
		check) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
		explain) ((n > 0)) || words=$operations ;;
		help) ((n > 0)) || words=$verbs ;;
		dropin)
			if ((n > 0)); then
				mapfile -t COMPREPLY < <(compgen -f -- "$cur")
			else
				words="enable disable status"
			fi
			;;
		nodes) ((n > 0)) || words="open close status" ;;
		site)
			if ((n > 0)); then
				mapfile -t COMPREPLY < <(compgen -d -- "$cur")
			else
				words="install use hold release status log"
			fi
			;;
		restrict | run)
			mapfile -t programs < <(compgen -c -- "$cur")
			_rdmabrokerctl_offer "$cur" "${programs[@]}"
			;;
		esac
	fi
	# shellcheck disable=SC2086
	_rdmabrokerctl_offer "$cur" $words
	return 0
}
complete -o filenames -F _rdmabrokerctl rdmabrokerctl
