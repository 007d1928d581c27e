# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: BSD-2-Clause
# For suites with two guests, which run starts with --second. This guest is the first one, "here"; the second one obeys, "there".
# Both have a Soft-RoCE device rxe0 at the end of the wire:
#
#     here  10.8.0.1 fd08::1  rxe0  wire ------ wire  rxe0  10.8.0.2 fd08::2  there

HERE=10.8.0.1
THERE=10.8.0.2
HERE6=fd08::1
THERE6=fd08::2

# ---- commands in the second guest ----

there_number=0

# there_start NAME COMMAND...: starts a command there. Its words are quoted, so there is no second expansion.
there_start() {
	local name=$1
	shift
	there_number=$((there_number + 1))
	there[$name]=$BASHPID-$there_number
	printf '%q ' "$@" > "$PAIR/${there[$name]}.new"
	mv "$PAIR/${there[$name]}.new" "$PAIR/${there[$name]}.command"
}

# there_says NAME TEXT [COUNT]: waits until the command's output contains TEXT.
there_says() {
	await_line "$PAIR/${there[$1]}.out" "$2" "${3:-1}"
}

there_output() {
	cat "$PAIR/${there[$1]}.out"
}

# there_finish NAME [STATUS]: waits for the command's end. Its exit status must be STATUS (0). See rping_raced().
there_finish() {
	local status
	await "[ -e '$PAIR/${there[$1]}.exit' ]" "${there_seconds:-$((2 * patience))}"
	echo "--- there: $1:"
	there_output "$1"
	status=$(cat "$PAIR/${there[$1]}.exit")
	[ "${2:-0}" != 0 ] || ! rping_raced "$status" "$PAIR/${there[$1]}.out" || status=0
	assert_eq "$1 ended with $status" "$1 ended with ${2:-0}"
}

# there_stop NAME PROGRAM: ends the command's program, and waits for the command.
there_stop() {
	on_there pkill "$2"
	there_finish "$1" "${3:-0}"
}

# on_there COMMAND...: runs a command there, and waits for its end. It must succeed.
on_there() {
	there_start command "$@"
	there_finish command
}

# there_is COMMAND...: whether a command succeeds there. Prints its output.
there_is() {
	there_start question "$@"
	await "[ -e '$PAIR/${there[question]}.exit' ]" "${there_seconds:-$((2 * patience))}"
	there_output question
	[ "$(cat "$PAIR/${there[question]}.exit")" = 0 ]
}

declare -A there # the files of commands there, by NAME

# ---- the second guest itself ----

# there_boots: waits until the second guest obeys. After it has died: until the one in its place does.
there_boots() {
	await "[ -e '$PAIR/boot' ] && ! cmp -s '$PAIR/boot' '$PAIR/boot.known'"
	cp "$PAIR/boot" "$PAIR/boot.known"
}

# there_is_silent: the second guest does not even refuse a connection.
there_is_silent() {
	local status=0
	timeout 5 bash -c ": < /dev/tcp/$THERE/9" 2> /dev/null || status=$?
	[ $status = 124 ]
}

# there_dies: the second guest is gone, without a word on the wire.
there_dies() {
	there_start death eval 'echo 1 > /proc/sys/kernel/sysrq; echo o > /proc/sysrq-trigger'
	await "[ -e '$PAIR/${there[death]}.running' ]"
	# The kernel powers the guest off a little later.
	await there_is_silent
}

# ---- the wire ----

wire_mac() {
	echo "52:54:00:09:00:0$1"
}

# The other host is a permanent neighbour: Soft-RoCE of kernel 6.1 crashes when a QP is destroyed while one of its packets
# still waits for the neighbour's address (rxe_skb_tx_dtor() uses the QP).
wire_neighbours() {
	local address

	for address in "10.8.0.$((3 - $1))" "fd08::$((3 - $1))"; do
		ip neigh replace "$address" dev wire nud permanent lladdr "$(wire_mac $((3 - $1)))"
	done
}

# wire_up NUMBER: the network and the RDMA device of host NUMBER (1: here, 2: there).
wire_up() {
	local number=$1 name gids=/sys/class/infiniband/rxe0/ports/1/gids

	modprobe -a virtio_net rdma_rxe rdma_ucm
	await "ip -br link | grep -q '$(wire_mac "$number")'"
	name=$(ip -br link | awk -v mac="$(wire_mac "$number")" '$3 == mac { print $1 }')
	if [ "$name" != wire ]; then
		ip link set "$name" down
		ip link set "$name" name wire
	fi
	ip address replace "10.8.0.$number/24" dev wire
	ip link set wire up
	ip address replace "fd08::$number/64" dev wire nodad
	wire_neighbours "$number"
	[ -e /sys/class/infiniband/rxe0 ] || rdma link add rxe0 type rxe netdev wire
	await "grep -q ffff:0a08:000$number $gids/*"
	await "grep -q fd08:.*:000$number $gids/*"
	await "rdma link show rxe0/1 | grep -q 'state ACTIVE'"
	udevadm settle
}

# lossy OPTION...: packets that this host sends are treated by netem, such as "loss 5%"; without options: no more.
lossy() {
	tc qdisc del dev wire root 2> /dev/null || true
	[ $# = 0 ] || tc qdisc add dev wire root netem "$@"
}

# Both hosts with the product, and the policy of stdin. Neither waits for the other, because that takes long.
pair_up() {
	cat > "$PAIR/policy"
	there_boots
	there_start up host_up 2
	host_up 1
	rdmabrokerctl check || exit 1
	there_finish up
}

host_up() {
	wire_up "$1"
	install_product
	policy < "$PAIR/policy"
}

second_up() {
	on_there host_up 2
}

# flows: waits until data arrive here again: more packets than a connection manager sends in this time.
flows() {
	local counter=/sys/class/infiniband/rxe0/ports/1/hw_counters/rcvd_pkts was

	was=$(cat $counter)
	(await "[ \$(cat $counter) -gt $((was + 100)) ]")
}

# ---- rdmabroker-peerd ----

# peerd_up: munged with the key of this pair, and rdmabroker-peerd
peerd_up() {
	install -o munge -g munge -m 400 "$PAIR/munge.key" /etc/munge/munge.key
	systemctl restart munge
	systemctl restart rdmabroker-peerd
	peerd_serves
}

# peerd_serves: waits until rdmabroker-peerd has both sessions with rdmabrokerd.
peerd_serves() {
	(await "[ \$(rdmabrokerctl list --sessions --user rdmabroker-peerd | grep -c rdmabroker-peerd) = 2 ]")
}

peerd_down() {
	systemctl stop rdmabroker-peerd.socket rdmabroker-peerd.service munge.service
}
