"""Nodes on one machine: network namespaces with an address each."""
import os
import shutil
import subprocess


def may_make_namespaces():
    return os.geteuid() == 0 and shutil.which("ip") is not None and subprocess.run(
        ["ip", "netns", "add", f"trainctl-try-{os.getpid()}"], capture_output=True).returncode == 0 and subprocess.run(
            ["ip", "netns", "delete", f"trainctl-try-{os.getpid()}"]).returncode == 0


class Nodes:
    """Network namespaces with an address each, two joined by a cable and more by a switch."""

    def __init__(self, count=2):
        self.count = count

    def __enter__(self):
        self.names = [f"trainctl-{os.getpid()}-{i}" for i in range(self.count)]
        self.interfaces = [f"tc{os.getpid() % 100000}-{i}" for i in range(self.count)]
        self.switch = f"trainctl-{os.getpid()}-switch"
        for name in self.names:
            self.ip("netns", "add", name)
        if self.count == 2:
            self.join(*zip(self.names, self.interfaces))
        else:
            self.ip("netns", "add", self.switch)
            self.ip("-n", self.switch, "link", "add", "bridge", "type", "bridge")
            self.ip("-n", self.switch, "link", "set", "bridge", "up")
            for i, node in enumerate(zip(self.names, self.interfaces)):
                self.join(node, (self.switch, f"port{i}"))
                self.ip("-n", self.switch, "link", "set", f"port{i}", "master", "bridge", "up")
        for i, (name, end) in enumerate(zip(self.names, self.interfaces)):
            self.ip("-n", name, "address", "add", f"10.98.76.{i + 1}/24", "dev", end)
            for device in (end, "lo"):
                self.ip("-n", name, "link", "set", device, "up")
        return self

    def __exit__(self, *_):
        for name in [*self.names, self.switch] if self.count > 2 else self.names:
            subprocess.run(["ip", "netns", "delete", name], check=False)

    def join(self, one, other):
        """By a cable between two interfaces: (namespace, name) each."""
        self.ip("link", "add", one[1], "netns", one[0], "type", "veth", "peer", "name", other[1], "netns", other[0])

    @staticmethod
    def ip(*arguments):
        subprocess.run(["ip", *arguments], check=True)

    def limit_rate(self, mbit, burst="256kb", loopback=False):
        """Of what each node sends, by a token bucket; `loopback`: what it sends to itself, too, by another one. A burst below a
        packet of 64 KiB, as the kernel has them before they leave, costs the processor as much as the job."""
        for name, end in zip(self.names, self.interfaces):
            for device in (end, "lo") if loopback else (end,):
                subprocess.run(["tc", "-n", name, "qdisc", "replace", "dev", device, "root", "tbf", "rate", f"{mbit}mbit", "burst", burst,
                                "latency", "100ms"], check=True)

    def acknowledge_at_once(self):
        """Without this, the last part of a message may wait 40 ms for TCP's delayed acknowledgement."""
        for name, end in zip(self.names, self.interfaces):
            self.ip("-n", name, "route", "replace", "10.98.76.0/24", "dev", end, "quickack", "1")

    def start(self, node, command, env):
        return subprocess.Popen(["ip", "netns", "exec", self.names[node], *map(str, command)], env=env, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)
