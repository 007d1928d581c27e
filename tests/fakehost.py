# SPDX-License-Identifier: BSD-2-Clause
"""A host for the tests that need no guest: a daemon on the fake fabric, which reads the version in force, and rdmabrokerctl."""

import json
import os
import pathlib
import select
import socket
import subprocess
import sys

O = pathlib.Path(os.environ.get("O", "build")).resolve()
PATIENCE = 600  # seconds; only ends a hang

results = []


def case(name, passed, why=""):
    results.append(bool(passed))
    print(f"{'ok' if passed else 'not ok'} {len(results)} - {name}", flush=True)
    if not passed:
        print("    " + str(why).strip().replace("\n", "\n    "), flush=True)


class Host:
    """A daemon, and the programs that reach it and no other."""

    def __init__(self, folder, name):
        self.name = name
        self.folder = folder / name
        self.site = self.folder / "state" / "site"
        self.socket = self.folder / "socket"
        self.ctl = self.folder / "rdmabrokerctl"
        self.log = self.folder / "log"
        rules = self.folder / "policy"
        rules.mkdir(parents=True)
        (rules / "50-local.rules").write_text("allow session user 1000\n", encoding="utf-8")
        config = self.folder / "rdmabrokerd.conf"
        config.write_text(f"[Daemon]\nPolicyDir={rules}\n", encoding="utf-8")
        self.script(self.folder / "rdmabrokerd",
                    f'exec {O}/rdmabrokerd --config {config} --policy-dir {rules} "$@"\n')
        # The package is not installed yet.
        self.ctl_text = f'export RDMABROKERD_CONFIG={config}\nRDMABROKERD={self.folder}/rdmabrokerd exec {O}/rdmabrokerctl --socket {self.socket} "$@"\n'
        with open(self.log, "w", encoding="utf-8") as log, \
                socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
            notified.bind(str(self.folder / "notify"))
            self.process = subprocess.Popen([f"{O}/tests/fakebroker", config, self.socket, rules,
                                             self.site / "current"], stderr=log,
                                            env={**os.environ, "NOTIFY_SOCKET": str(self.folder / "notify")})
            if not self.is_ready(notified):
                sys.exit("the daemon does not start:\n" + self.log.read_text(encoding="utf-8"))

    def is_ready(self, notified):
        """Wait until the daemon says that it is ready. False: it has ended instead, or says nothing for PATIENCE."""
        ended = os.pidfd_open(self.process.pid)
        try:
            while notified in select.select([notified, ended], [], [], PATIENCE)[0]:
                if b"READY=1" in notified.recv(4096).splitlines():
                    return True
            return False
        finally:
            os.close(ended)

    @staticmethod
    def script(path, text):
        path.write_text("#!/bin/sh\n" + text, encoding="utf-8")
        path.chmod(0o755)

    def install_ctl(self):
        self.script(self.ctl, self.ctl_text)

    def run_ctl(self, *arguments):
        return json.loads(subprocess.run([self.ctl, *arguments, "--json"], stdout=subprocess.PIPE, check=True,
                                         timeout=PATIENCE).stdout)

    def version(self):
        """The version in force, if the daemon has its rules and no others."""
        version = self.run_ctl("site", "status", "--directory", self.site)["version"]
        texts = [rule["text"] for rule in self.run_ctl("rules")["rules"]
                 if (rule["file"] or "").endswith("/10-site.rules")]
        if version is None:
            return None if texts == [] else f"none, but {texts}"
        lines = (self.site / "versions" / version / "10-site.rules").read_text(encoding="utf-8").splitlines()
        wanted = [line for line in lines if not line.startswith("#")]
        return version if texts == wanted else f"{version}, but {texts[:3]}"

    def state(self):
        """What changes when the version is installed again, or the daemon is reloaded."""
        paths = [self.site, *sorted(self.site.rglob("*"))]
        stats = [(str(path), path.lstat().st_ino, path.lstat().st_ctime_ns) for path in paths]
        return stats, self.log.read_text(encoding="utf-8").count("policy reloaded")


def end():
    """Print the last line of a check, and exit."""
    passed = sum(results)
    print(f"{passed} passed, {len(results) - passed} failed")
    sys.exit(passed != len(results))
