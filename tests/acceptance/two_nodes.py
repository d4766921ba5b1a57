"""Two nodes on one machine: network namespaces with an address each."""
import os
import shutil
import subprocess


def may_make_namespaces():
    return os.geteuid() == 0 and shutil.which("ip") is not None and subprocess.run(
        ["ip", "netns", "add", f"trainctl-try-{os.getpid()}"], capture_output=True).returncode == 0 and subprocess.run(
            ["ip", "netns", "delete", f"trainctl-try-{os.getpid()}"]).returncode == 0


class TwoNodes:
    """Network namespaces with an address each, joined by a cable."""

    def __enter__(self):
        self.names = [f"trainctl-{os.getpid()}-{i}" for i in range(2)]
        for name in self.names:
            self.ip("netns", "add", name)
        ends = [f"tc{os.getpid() % 100000}{i}" for i in "ab"]
        self.ip("link", "add", ends[0], "netns", self.names[0], "type", "veth", "peer", "name", ends[1], "netns", self.names[1])
        for i, (name, end) in enumerate(zip(self.names, ends)):
            self.ip("-n", name, "address", "add", f"10.98.76.{i + 1}/24", "dev", end)
            for device in (end, "lo"):
                self.ip("-n", name, "link", "set", device, "up")
        self.interfaces = ends
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], check=False)

    @staticmethod
    def ip(*arguments):
        subprocess.run(["ip", *arguments], check=True)

    def limit_rate(self, mbit):
        """Of what either node sends, by a token bucket."""
        for name, end in zip(self.names, self.interfaces):
            subprocess.run(["tc", "-n", name, "qdisc", "replace", "dev", end, "root", "tbf", "rate", f"{mbit}mbit", "burst", "256kb",
                            "latency", "100ms"], check=True)

    def start(self, node, command, env):
        return subprocess.Popen(["ip", "netns", "exec", self.names[node], *map(str, command)], env=env, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)
