# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# Containers of podman, made of this guest's own programs. For suites, after broker.sh.

RDMA=rdmabroker/rdma
DROPIN=rdmabroker/dropin=all
PROGRAMS="bash cat cp env id ls mkdir sleep grep sed rping rdmabroker-ping rdmabrokerctl ibv_devices"

# ---- images and containers ----

# add_files DIR FILE...: copies files of /usr, and the libraries that they need.
add_files() {
	local dir=$1 file files
	shift
	files=("$@")
	mapfile -t -O "${#files[@]}" files < <(ldd "${files[@]}" 2> /dev/null |
		sed -nE 's/^.*=> (\/[^ ]*) .*/\1/p; s/^\s(\/[^ ]*) .*/\1/p' | sort -u)
	for file in "${files[@]}"; do
		file=${file#/usr}
		mkdir -p "$dir/usr${file%/*}"
		cp -L "/usr$file" "$dir/usr${file%/*}/"
	done
}

# add_programs DIR PROGRAM...
add_programs() {
	local dir=$1 program files=()
	shift
	for program in "$@"; do
		files+=("$(type -P "$program")")
	done
	add_files "$dir" "${files[@]}"
}

# make_rootfs DIR OWNER: a small image, with programs and libraries of this guest.
make_rootfs() {
	local dir=$1 program files=()
	[ ! -e "$dir" ] || return 0
	mkdir -p "$dir"/{dev,proc,sys,run/rdmabroker,tmp,etc,usr/bin,usr/lib64,usr/lib/rdmabroker}
	ln -s usr/bin "$dir/bin"
	ln -s usr/lib "$dir/lib"
	ln -s usr/lib64 "$dir/lib64"
	for program in $PROGRAMS; do
		files+=("$(type -P "$program")")
	done
	files+=(/usr/lib/*/libibverbs/librxe*.so /usr/lib/*/libgcc_s.so.1)
	add_files "$dir" "${files[@]}"
	mkdir "$dir/etc/libibverbs.d"
	cp /etc/libibverbs.d/rxe.driver "$dir/etc/libibverbs.d/"
	cp /etc/passwd /etc/group "$dir/etc/"
	chown -R "$2:" "$dir"
}

# container NAME USER [OPTION...] -- COMMAND...: starts a container in the background. USER root: a container of root,
# in which user 1000 runs unless OPTION says otherwise. Other users: a rootless container. The output is in the file
# NAME. NETWORK=host: it has the host's network.
container() {
	local name=$1 user=$2 options=()
	shift 2
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	options=(run --rm --replace --name "$name" --network "${NETWORK:-none}" --log-driver none "${options[@]}")
	: > "$name"
	if [ "$user" = root ]; then
		podman "${options[@]}" --ulimit memlock=-1:-1 --rootfs /srv/rootfs:O "$@" > "$name" 2>&1 &
	else
		as_manager "$user" podman "${options[@]}" --rootfs "/home/$user/rootfs" "$@" > "$name" 2>&1 &
	fi
	pid[$name]=$!
}

# as_manager USER COMMAND...: runs COMMAND as a service of USER's own systemd.
as_manager() {
	local user=$1
	shift
	systemd-run --quiet --machine="$user@" --user --collect --pipe --wait -- "$@"
}

# a_container runs until it is told to end.
end_container() {
	local name=$1 user=${2:-root}
	if [ "$user" = root ]; then
		podman kill "$name" > /dev/null || true
	else
		as_manager "$user" podman kill "$name" > /dev/null || true
	fi
	wait "${pid[$name]}" || true
}

prepare_root() {
	make_rootfs /srv/rootfs root
	systemctl start rdmabroker-cdi
}

prepare_user() {
	loginctl enable-linger "$1"
	(await "systemctl -q is-active user@$(id -u "$1")")
	make_rootfs "/home/$1/rootfs" "$1"
	systemctl start rdmabroker-cdi
}

# containers_policy: containers of root and of alice may do everything, in some ports.
containers_policy() {
	policy <<-END
		allow session container *
		allow device  container * access open
		allow listen  container * port 7400-7499
		allow accept  container * port 7400-7499
		allow connect container *
		allow session container user-1000/*
		allow device  container user-1000/*
		allow listen  container user-1000/* port 7400-7499
		allow accept  container user-1000/* port 7400-7499
		allow connect container user-1000/*
		allow session user bob
		allow device  user bob
		allow connect user bob
	END
}

# list_field FIELD EXPRESSION: prints FIELD of the sessions S for which EXPRESSION is true.
list_field() {
	rdmabrokerctl --json list | python3 -c "
import json, sys
for s in json.load(sys.stdin)['sessions']:
	if $2: print(s['$1'])"
}

container_id() {
	podman inspect --format '{{.Id}}' "$1"
}

nothing_is_left() {
	(await "[ \$(status_field \"['ids']\") = 0 ]")
	(await "! getfacl -pn /dev/infiniband/uverbs* | grep -qE 'user:[0-9]'")
}
