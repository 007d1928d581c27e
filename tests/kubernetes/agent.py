# SPDX-License-Identifier: BSD-2-Clause
"""Runs the agent's script of policy-agent.yaml in temporary folders, and the script of rdmabroker-policy.service.

A thread does what rdmabroker-policy.path does. In place of the daemon, rdmabrokerd --check reads the policy when the
service runs rdmabrokerctl reload.
"""

import configparser
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time

FOLDER = "conf/kubernetes"
DEADLINE = 180  # only ends a hang, see tests/patience.h
LOCAL = "allow  session user 1000\nset local = { 10.9.0.0/16 }\n"  # the node's own rules
GOOD = {"10-a.k8s.rules": "allow  device pod * access open\n", "90-b.k8s.rules": "reject any pod * log\n"}
OTHER = {"10-a.k8s.rules": "allow  device pod *\n", "50-c.k8s.rules": "reject admin container *\n"}
BAD = {"10-a.k8s.rules": "allow  device pod *\n", "90-b.k8s.rules": "allow  sesion pod *\n"}
# Good by itself, but the node's own rules define the set, too.
BAD_HERE = {"90-b.k8s.rules": "set local = { 10.8.0.0/16 }\nreject any pod * peer @local\n"}


def read_unit(name):
    unit = configparser.ConfigParser(interpolation=None, strict=True)
    unit.optionxform = str
    with open(f"{FOLDER}/{name}", encoding="utf-8") as file:
        unit.read_string(file.read().replace("\\\n", " "))
    return unit


def read_service_script():
    """Return the shell script in ExecStart= of rdmabroker-policy.service, as systemd passes it to the shell."""
    command = read_unit("rdmabroker-policy.service")["Service"]["ExecStart"]
    begin = "/bin/sh -c '"
    assert command.startswith(begin) and command.endswith("'") and command.count("'") == 2, command
    return command[len(begin):-1].replace("$$", "$").replace("%%", "%")


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class Node:
    """The folders of a node, and of the agent on it."""

    def __init__(self, top, build, script):
        self.top = top
        self.config, self.policy, self.answers, self.state = [
            os.path.join(top, name) for name in ("config", "policy", "answers", "state")]
        for path in (self.config, self.policy, self.answers, self.state, os.path.join(top, "bin")):
            os.mkdir(path, 0o755)
        self.script = os.path.join(top, "agent.sh")
        self.versions = 0
        self.reloads = 0
        self.answering = threading.Event()
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._answer)
        write(self.script, script)
        write(os.path.join(self.policy, "60-mine.rules"), LOCAL)
        write(os.path.join(top, "rdmabrokerd.conf"), "")
        self.make_program("rdmabrokerd", f'exec "{os.path.abspath(build)}/rdmabrokerd" "$@"')
        # What is in force is a copy of the rules that were loaded last.
        self.make_program("rdmabrokerctl", f'''
            [ "$*" = reload ] || exit 2
            rdmabrokerd --config "{top}/rdmabrokerd.conf" --policy-dir "{self.policy}" --check || exit
            cat "{self.policy}"/*.rules >"{top}/in-force"''')
        self.environment = dict(
            os.environ, PATH=f"{top}/bin:{os.environ['PATH']}",
            CONFIG=self.config, POLICY=self.policy, ANSWERS=self.answers, STATE=self.state,
            RUNTIME_DIRECTORY=self.answers, PERIOD="0.1", POLL="0.05", TRIES="3", WAIT="3600", RETRY="300")

    def make_program(self, name, text):
        path = os.path.join(self.top, "bin", name)
        write(path, f"#!/bin/sh\n{text}\n")
        os.chmod(path, 0o755)

    def tick(self):
        """Return the time that a file gets now."""
        path = os.path.join(self.top, "tick")
        write(path, "")
        return os.stat(path).st_mtime_ns

    def _answer(self):
        """Do what rdmabroker-policy.path does: it starts the service when the file was written and closed.

        Files have the time of the kernel's last tick, and the service's file must be newer: wait for the next tick, which
        systemd does not have to do, because it takes longer to start a service.
        """
        question = os.path.join(self.policy, ".k8s.reload")
        seen = None
        while not self.stopping.wait(0.01):
            with contextlib.suppress(FileNotFoundError):
                now = os.stat(question).st_mtime_ns
                if now == seen or not self.answering.is_set() or read(question) != "reload\n":
                    continue
                while self.tick() <= now:
                    self.stopping.wait(0.001)
                seen = now
                self.reloads += 1
                self.start_service().wait()

    def start_service(self):
        """Start the script of rdmabroker-policy.service."""
        return subprocess.Popen(["/bin/sh", "-c", read_service_script()], env=self.environment)

    def __enter__(self):
        self.answering.set()
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.thread.join()

    def configure(self, files):
        """Write a version of the ConfigMap, and swap the links as the kubelet does."""
        self.versions += 1
        version = f"..version{self.versions}"
        os.mkdir(os.path.join(self.config, version))
        for name, text in files.items():
            write(os.path.join(self.config, version, name), text)
            os.chmod(os.path.join(self.config, version, name), 0o666)  # the node's file must not have this mode
        os.symlink(version, os.path.join(self.config, "..data.new"))
        os.rename(os.path.join(self.config, "..data.new"), os.path.join(self.config, "..data"))
        for name in os.listdir(self.config):
            if not name.startswith("..") and name not in files:
                os.unlink(os.path.join(self.config, name))
        for name in files:
            if not os.path.lexists(os.path.join(self.config, name)):
                os.symlink(os.path.join("..data", name), os.path.join(self.config, name))

    def start(self, *arguments, **variables):
        # /bin/sh, as in the DaemonSet. It has its own process group, so that it can be killed with all its programs.
        return subprocess.Popen(["/bin/sh", self.script, *arguments], env=dict(self.environment, **variables),
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, process_group=0)

    def once(self, **variables):
        """Run the agent once. Returns its status and its output."""
        process = self.start("once", **variables)
        output, _ = process.communicate(timeout=DEADLINE)
        return process.returncode, output

    def rules(self):
        """Return the files that rdmabrokerd would read: name -> text."""
        return {name: read(os.path.join(self.policy, name)) for name in sorted(os.listdir(self.policy))
                if name.endswith(".rules") and not name.startswith(".")}

    def expect(self, files, ready=True):
        """The node has these rules and its own, no other files, and the rules are in force."""
        wanted = dict(sorted({**files, "60-mine.rules": LOCAL}.items()))
        assert self.rules() == wanted, f"rules: {self.rules()}"
        others = set(os.listdir(self.policy)) - set(wanted) - {".k8s.reload"}
        assert not others, f"left over: {others}"
        for name in wanted:
            mode = os.stat(os.path.join(self.policy, name)).st_mode
            assert mode & 0o777 == 0o644, f"{name}: mode {mode:o}"
        in_force = read(os.path.join(self.top, "in-force"))
        assert in_force == "".join(wanted.values()), f"in force: {in_force}"
        assert os.path.exists(os.path.join(self.state, "ready")) == ready, "ready"

    def identities(self):
        """Return what tells whether a file of the policy was written: name -> number and time."""
        result = {}
        for name in self.rules():
            status = os.stat(os.path.join(self.policy, name))
            result[name] = status.st_ino, status.st_mtime_ns
        return result


def expect_status(result, status, *words):
    assert result[0] == status, f"status {result[0]}: {result[1]}"
    for word in words:
        assert word in result[1], f"no '{word}' in: {result[1]}"


def await_true(what, condition):
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, f"waited {DEADLINE} s until {what}"
        time.sleep(0.02)


def end(process):
    process.terminate()
    output, _ = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0, f"status {process.returncode}: {output}"
    return output


def installs(node):
    node.configure(GOOD)
    expect_status(node.once(), 0, "in force: 10-a.k8s.rules 90-b.k8s.rules")
    node.expect(GOOD)


def replaces_and_removes(node):
    installs(node)
    own = node.identities()["60-mine.rules"]
    node.configure(OTHER)
    expect_status(node.once(), 0, "in force: 10-a.k8s.rules 50-c.k8s.rules")
    node.expect(OTHER)
    assert node.identities()["60-mine.rules"] == own, "the node's own rules were written"
    node.configure({})
    expect_status(node.once(), 0)
    node.expect({})


def refuses_errors(node):
    installs(node)
    before, reloads = node.identities(), node.reloads
    node.configure(BAD)
    expect_status(node.once(), 1, "90-b.k8s.rules:1:8", "sesion", "the present rules stay")
    node.expect(GOOD, ready=False)
    assert (node.identities(), node.reloads) == (before, reloads), "the rules were touched"


def refuses_names(node):
    installs(node)
    node.configure({**GOOD, "60-mine.rules": "allow any\n"})
    expect_status(node.once(), 1, "cannot install 60-mine.rules: the name does not end in .k8s.rules")
    node.expect(GOOD, ready=False)


def restores_what_the_node_refuses(node):
    installs(node)
    node.configure(BAD_HERE)
    expect_status(node.once(), 1, "rdmabrokerd has not loaded the rules", "90-b.k8s.rules:1", "are restored")
    node.expect(GOOD, ready=False)


def restores_without_an_answer(node):
    installs(node)
    node.answering.clear()
    node.configure(OTHER)
    expect_status(node.once(WAIT="2"), 1, "is rdmabroker-policy.path enabled", "are restored")
    node.expect(GOOD, ready=False)


def dates_answers(node):
    """A reload that began before the agent's question may not have read its rules, even if it ends later."""
    node.answering.clear()
    question, answer = os.path.join(node.policy, ".k8s.reload"), os.path.join(node.answers, "answer")
    end_reload = os.path.join(node.top, "end-reload")
    node.make_program("rdmabrokerctl", f'until [ -e "{end_reload}" ]; do sleep 0.02; done')
    process = node.start_service()
    await_true("the reload begins", lambda: os.path.exists(os.path.join(node.answers, "began")))
    time.sleep(0.05)
    write(question, "reload\n")
    write(end_reload, "")
    assert process.wait(DEADLINE) == 0
    assert os.stat(answer).st_mtime_ns < os.stat(question).st_mtime_ns, "the answer is newer than the question"
    time.sleep(0.05)
    assert node.start_service().wait(DEADLINE) == 0
    assert os.stat(answer).st_mtime_ns > os.stat(question).st_mtime_ns, "the answer is older than the question"


def asks_again(node):
    """A change is lost that is made while rdmabroker-policy.service runs: the agent asks again."""
    node.answering.clear()
    node.configure(GOOD)
    process = node.start("once", TRIES="100", WAIT="40")
    await_true("the agent asks", lambda: os.path.exists(os.path.join(node.policy, ".k8s.reload")))
    # An answer from before the question does not count.
    write(os.path.join(node.answers, "answer"), "loaded\n")
    os.utime(os.path.join(node.answers, "answer"), (1, 1))
    time.sleep(0.1)
    assert not os.path.exists(os.path.join(node.state, "ready")), "an old answer counts"
    node.answering.set()
    output, _ = process.communicate(timeout=DEADLINE)
    expect_status((process.returncode, output), 0)
    node.expect(GOOD)


def recovers(node):
    """The agent is killed after it has installed rules, and before they are in force."""
    for config, status, rules in (BAD, 1, GOOD), (OTHER, 0, OTHER):
        node.configure(GOOD)
        expect_status(node.once(), 0)
        node.answering.clear()
        node.configure(BAD_HERE)
        process = node.start()
        await_true("the rules are installed", lambda: BAD_HERE["90-b.k8s.rules"] in node.rules().values())
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        node.answering.set()
        node.configure(config)
        expect_status(node.once(), status, "an installation was interrupted")
        node.expect(rules, ready=status == 0)


def follows(node):
    """The agent that runs all the time follows the ConfigMap, repairs changes on the node, and ends when asked to."""
    ready = os.path.join(node.state, "ready")
    process = node.start()
    try:
        for good, bad in (GOOD, BAD), (OTHER, {**OTHER, "misnamed": ""}), (OTHER, BAD):
            node.configure(good)
            await_true("the rules are in force", lambda: os.path.exists(ready))
            node.expect(good)
            node.configure(bad)
            await_true("the rules are refused", lambda: not os.path.exists(ready))
            time.sleep(0.5)  # some periods, in which the agent must not try again
        node.configure(OTHER)
        await_true("the rules are in force", lambda: os.path.exists(ready))
        os.unlink(os.path.join(node.policy, "10-a.k8s.rules"))
        await_true("the rules are repaired", lambda: len(node.rules()) == 3 and os.path.exists(ready))
        reloads = node.reloads
        time.sleep(0.5)
        node.expect(OTHER)
        assert node.reloads == reloads, "the agent reloads without a change"
    finally:
        output = end(process)
    assert output.count("unknown operation 'sesion'") == 2, f"the error is not printed once for each time: {output}"
    assert output.count("cannot install misnamed") == 1, output


def is_atomic(node):
    """A reader sees no incomplete file while large files are replaced."""
    versions = [{"10-a.k8s.rules": f"# {number}\n" + "allow  device pod * access open\n" * 4000 + f"# {number}\n"}
                for number in range(2)]
    known = {LOCAL} | {text for version in versions for text in version.values()}
    wrong, reads = [], [0]
    stop = threading.Event()

    def read_all():
        while not stop.is_set():
            with contextlib.suppress(FileNotFoundError):
                wrong.extend(len(text) for text in node.rules().values() if text not in known)
                reads[0] += 1

    reader = threading.Thread(target=read_all)
    reader.start()
    try:
        for number in range(8):
            node.configure(versions[number % 2])
            expect_status(node.once(), 0)
            node.expect(versions[number % 2])
    finally:
        stop.set()
        reader.join()
    assert not wrong and reads[0] > 8, f"{len(wrong)} of {reads[0]} reads saw incomplete files"


def check_parses(script):
    for shell in ["/bin/sh"], ["bash", "--posix"]:
        for text in script, read_service_script():
            result = subprocess.run([*shell, "-n"], input=text, text=True, capture_output=True, check=False)
            assert result.returncode == 0 and not result.stderr, result.stderr
    broken = subprocess.run(["/bin/sh", "-n"], input=script.replace("\nfi\n", "\n"), text=True, capture_output=True,
                            check=False)
    assert broken.returncode != 0, "a missing fi is not found"


def check_units():
    path, service = read_unit("rdmabroker-policy.path"), read_unit("rdmabroker-policy.service")
    manifest = read(f"{FOLDER}/policy-agent.yaml")
    folder, _, name = path["Path"]["PathChanged"].rpartition("/")
    assert f"path: {folder}\n" in manifest and f'"$POLICY/{name}"' in manifest, "the agent writes another file"
    assert f"path: /run/{service['Service']['RuntimeDirectory']}\n" in manifest, "the agent reads another folder"
    assert "Unit" not in path["Path"], "the path unit starts another service"


def check_rules(build, policy):
    """The policy passes rdmabrokerd --check, in the order of the names. With an error it does not."""
    def run(files):
        with tempfile.TemporaryDirectory() as top:
            for name, text in files.items():
                write(os.path.join(top, name), text)
            paths = [os.path.join(top, name) for name in sorted(files)]
            return subprocess.run([f"{build}/rdmabrokerd", "--check", *paths], text=True, capture_output=True,
                                  check=False)

    assert policy and all(name.endswith(".k8s.rules") for name in policy), sorted(policy)
    result = run(policy)
    assert result.returncode == 0 and not result.stderr, result.stderr
    for name, text in policy.items():
        result = run({**policy, name: text + "allow sesion pod *\n"})
        assert result.returncode == 1 and "sesion" in result.stderr, f"{name}: not refused"
        assert "pod *" in text or "container *" in text, f"{name} has no rule for pods or containers"


STORIES = [
    ("the rules of the ConfigMap are installed and in force", installs),
    ("files that leave the ConfigMap leave the node, and the node's own stay", replaces_and_removes),
    ("rules with an error change nothing", refuses_errors),
    ("a file with another name is refused", refuses_names),
    ("rules that only the node refuses are taken back", restores_what_the_node_refuses),
    ("rules are taken back if the node does not answer", restores_without_an_answer),
    ("the agent asks again, and knows an old answer", asks_again),
    ("the node's service dates its answers by the begin of the reload", dates_answers),
    ("an agent that is killed recovers when it starts again", recovers),
    ("the agent follows the ConfigMap until it is ended", follows),
    ("no reader sees half of a file", is_atomic),
]


def run_story(story, build, script):
    top = tempfile.mkdtemp()
    try:
        with Node(top, build, script) as node:
            story(node)
    finally:
        shutil.rmtree(top)


def run_cases(case, build, policy, script):
    """Run all cases. CASE(TITLE, FUNCTION, ARGUMENTS...) runs one."""
    case("the policy passes rdmabrokerd --check, and no policy with an error does", check_rules, build, policy)
    case("the scripts of the agent and of the node's service parse", check_parses, script)
    case("the node's units and the agent use the same files", check_units)
    for title, story in STORIES:
        case(f"agent: {title}", run_story, story, build, script)
