#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# rdmabroker-pull, as systemd runs it: the timer, the two services, their users, sandboxes, credentials and limits.
# tests/pull/check has the rest.

# shellcheck source=../lib.sh
. "$(dirname "$0")/../lib.sh"
# shellcheck source=../broker.sh
. "$(dirname "$0")/../broker.sh"

git_() {
	git -c user.name=Alice -c user.email=alice@example.com -c gpg.format=ssh -c user.signingKey="$PWD/key.pub" \
		-c safe.directory='*' -C clone "$@"
}

# push RULE: signs and pushes a version with this rule. Its name is in $version.
push() {
	mkdir -p clone/policy
	echo "$1" > clone/policy/10-site.rules
	git_ add -A
	git_ commit -q -S -m change
	git_ push -q origin HEAD:main
	version=$(git_ rev-parse HEAD | cut -c 1-12)
}

repository_up() {
	policy <<-END
		allow session
		allow device
	END
	rm -rf /srv/policy.git /srv/gone clone key key.pub /var/lib/rdmabroker/site /var/lib/rdmabroker-pull/*
	git init -q --bare /srv/policy.git
	git init -q clone
	git_ remote add origin /srv/policy.git
	ssh-keygen -q -t ed25519 -N '' -f key
	echo "alice@example.com $(cat key.pub)" > /etc/rdmabroker/pull-signers
	cp key /etc/rdmabroker/pull/key
	chmod 600 /etc/rdmabroker/pull/key
	printf '[Pull]\nRepository=file:///srv/policy.git\nFolder=policy\nAllowedSigners=/etc/rdmabroker/pull-signers\n' \
		> /etc/rdmabroker/pull.conf
}

repository_down() {
	systemctl disable --now rdmabroker-pull.timer
	systemctl stop rdmabroker-pull-install.service rdmabroker-pull.service
	rm -rf /srv/policy.git /var/lib/rdmabroker/site /var/lib/rdmabroker-pull/*
	reload "policy reloaded"
}

state() {
	rdmabrokerctl site status --json | python3 -c 'import json, sys; d = json.load(sys.stdin); print(d["version"], d["state"])'
}

case_timer() {
	local first
	repository_up
	push "allow listen user alice port 7471"
	rdmabroker-pull --once | show
	assert_eq "$(state)" "$version in-force"
	assert_contains "$(rdmabrokerctl rules)" "allow listen user alice port 7471"
	assert_eq "$(stat -c %U /var/lib/rdmabroker-pull/version /var/lib/rdmabroker/site)" "rdmabroker-pull
root"
	systemd-analyze security --no-pager rdmabroker-pull rdmabroker-pull-install | grep Overall | show
	first=$version
	systemctl enable --now rdmabroker-pull.timer
	push "allow listen user alice port 7472"
	(await "[ \"\$(state)\" = '$version in-force' ]" 120)
	assert_contains "$(rdmabrokerctl rules)" "allow listen user alice port 7472"
	# Edited files, and a repository that is gone.
	mv /srv/policy.git /srv/gone
	echo "allow any" > /var/lib/rdmabroker/site/current/10-site.rules
	(await "[ \"\$(state)\" = '$version drift-put-back' ]" 120)
	assert_eq "$(journalctl -b -u rdmabroker-pull -o cat | grep -c 'does not appear to be a git repository')" 1
	mv /srv/gone /srv/policy.git
	git_ revert --no-edit -S HEAD
	git_ push -q origin HEAD:main
	(await "rdmabrokerctl rules | grep -q 'port 7471'" 120)
	rdmabrokerctl site log | show
	assert [ "$(rdmabrokerctl site log | wc -l)" -ge 5 ]
	systemctl --failed --no-legend | show
	assert_eq "$(systemctl is-failed rdmabroker-pull.service)" inactive
	assert [ -n "$first" ]
	repository_down
}

# What the service gets, and what a repository or a program can take of the host.
case_sandbox() {
	repository_up
	push "allow listen user alice port 7471"
	rdmabroker-pull --once | show
	head -c 100000000 /dev/urandom > clone/large
	push "allow listen user alice port 7472"
	assert_fails_with 75 rdmabroker-pull --once
	assert_contains "$(rdmabrokerctl rules)" "port 7471"
	assert_contains "$(cat /var/lib/rdmabroker-pull/status)" "it was ended"
	cat > /usr/local/sbin/fetch-policy <<-'END'
		#!/bin/sh
		{
			id -un
			ls "$CREDENTIALS_DIRECTORY"
			cat /etc/rdmabroker/pull/key 2> /dev/null && echo "the key can be read"
			touch /etc/x /var/lib/rdmabroker/x 2> /dev/null && echo "the host can be written"
			cp /bin/true "$1/../../x" && "$1/../../x" 2> /dev/null && echo "what was fetched can be run"
			ls /dev/infiniband 2> /dev/null && echo "devices"
			setsid sh -c 'sleep 1000' &
		} > "$1/../../said" 2>&1
		echo "allow listen user alice port 7473" > "$1/10-site.rules"
		echo command
	END
	chmod 755 /usr/local/sbin/fetch-policy
	printf '[Pull]\nCommand=/usr/local/sbin/fetch-policy\n' > /etc/rdmabroker/pull.conf
	rdmabroker-pull --once | show
	assert_eq "$(state)" "command in-force"
	assert_eq "$(cat /var/lib/rdmabroker-pull/said)" "rdmabroker-pull
pull_key"
	# When root reads, nothing of the user is left.
	assert_fails_with 1 pgrep -u rdmabroker-pull
	rm /usr/local/sbin/fetch-policy
	repository_down
}

product_up
run_cases "$@"
