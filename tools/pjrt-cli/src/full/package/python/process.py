"""The setup that a plugin needs for each process: the plan of the manifest, resolved for the position of one process.
"""

import dataclasses
import fnmatch
import os
import re
from typing import Any, Callable, Dict, List, Mapping, MutableMapping, Optional, Tuple

from . import options as _options

PORT = 8547
_U64 = 2**64 - 1


@dataclasses.dataclass(frozen=True)
class Topology:
    """The position of a process among those that run one program together."""

    global_rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_world_size: int = 1
    host_index: int = 0
    host_count: int = 1
    slice_index: int = 0
    slice_count: int = 1
    #: Host of the process with rank 0, and its port if it is known.
    coordinator: Optional[Tuple[str, Optional[int]]] = None
    #: Names of the hosts of this process's slice.
    hosts: Tuple[str, ...] = ()
    #: Whether the process takes one device of its host instead of all.
    one_device: bool = False
    #: Other known values, by the name of the variable that would contain them.
    attributes: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        for index, count in (
            ("global_rank", "world_size"),
            ("local_rank", "local_world_size"),
            ("host_index", "host_count"),
            ("slice_index", "slice_count"),
        ):
            if not 0 <= getattr(self, index) < getattr(self, count):
                raise ValueError(f"{index} is {getattr(self, index)}, but must be below {count}, {getattr(self, count)}")
        if self.local_world_size > self.world_size:
            raise ValueError(f"this host has {self.local_world_size} processes, but all hosts together have {self.world_size}")
        if self.host_count % self.slice_count:
            raise ValueError(f"the number of hosts, {self.host_count}, is not a multiple of the number of slices, {self.slice_count}")

    @property
    def hosts_per_slice(self) -> int:
        return self.host_count // self.slice_count

    @property
    def host_in_slice(self) -> int:
        return self.host_index % self.hosts_per_slice

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> "Topology":
        """Reads a topology from the JSON that the Rust crates write."""
        position = lambda name: (json[name]["index"], json[name]["count"])  # noqa: E731
        global_rank, world_size = position("global")
        local_rank, local_world_size = position("local")
        host_index, host_count = position("host")
        slice_index, slice_count = position("slice")
        return cls(
            global_rank,
            world_size,
            local_rank,
            local_world_size,
            host_index,
            host_count,
            slice_index,
            slice_count,
            _address(json["coordinator"]) if json.get("coordinator") else None,
            tuple(json.get("hosts", ())),
            json["device_share"] == "one",
            dict(json.get("attributes", {})),
        )


def of_torch(local_rank: int, local_world_size: int, environment: Mapping[str, str] = os.environ) -> Topology:
    """The position of a process that torchrun or PyTorch/XLA's spawn started."""
    count = lambda name: _count(environment, name)  # noqa: E731
    names = tuple(name.strip() for name in environment.get("TPU_WORKER_HOSTNAMES", "").split(",") if name.strip())
    world_size = count("WORLD_SIZE")
    if world_size is not None and count("RANK") is not None:
        global_rank = count("RANK") or 0
        host_index, host_count = count("GROUP_RANK"), count("GROUP_WORLD_SIZE")
        if host_index is None or host_count is None:
            host_index, host_count = global_rank // local_world_size, -(-world_size // local_world_size)
    else:
        host_count = len(names) or 1
        host_index = count("TPU_WORKER_ID") or 0
        world_size = host_count * local_world_size
        global_rank = host_index * local_world_size + local_rank
    address = environment.get("MASTER_ADDR")
    return Topology(
        global_rank,
        world_size,
        local_rank,
        local_world_size,
        host_index,
        host_count,
        coordinator=(address.strip("[]"), _count(environment, "XLA_COORDINATOR_PORT")) if address else None,
        hosts=names if len(names) == host_count else (),
        one_device=True,
    )


def of_jax(
    process_id: int, processes: int, coordinator: Optional[str], environment: Mapping[str, str] = os.environ
) -> Topology:
    """The position of a process that called `jax.distributed.initialize`. JAX does not know the local rank, so
    it is read from the variables of launchers.
    """
    local_rank, local_world_size = 0, 1
    for rank, size in (
        ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
        ("SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"),
        ("LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    ):
        found, of = _count(environment, rank), _count(environment, size)
        if found is not None and of is not None and found < of <= processes and processes % of == 0:
            local_rank, local_world_size = found, of
            break
    host_count = processes // local_world_size
    return Topology(
        process_id,
        processes,
        local_rank,
        local_world_size,
        process_id // local_world_size,
        host_count,
        coordinator=_address(coordinator) if coordinator else None,
        one_device=local_world_size > 1,
    )


def _address(text: str) -> Tuple[str, Optional[int]]:
    text = text.strip()
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        return host, int(port[1:]) if port.startswith(":") else None
    if text.count(":") != 1:
        return text, None
    host, _, port = text.partition(":")
    return host, int(port)


def _count(environment: Mapping[str, str], name: str) -> Optional[int]:
    """The integer in a variable, or None if it is not set."""
    text = environment.get(name, "").strip()
    if not text:
        return None
    if not re.fullmatch(r"\+?[0-9]+", text):
        raise ValueError(f"{name}={text!r}: not a whole number; set it to a number from 0 up, or unset it")
    return int(text)


@dataclasses.dataclass(frozen=True)
class Step:
    """A variable of the plan. `set` and `replace` change it, `keep` and `unchanged` do not."""

    variable: str
    value: str
    effect: str
    before: str
    reason: str


@dataclasses.dataclass(frozen=True)
class Resolved:
    """The result of a plan for one process. Only `apply` sets variables."""

    steps: List[Step]
    options: Dict[str, Any]
    #: `host:port`, if clients need a key-value store that all processes share.
    coordinator: Optional[str]

    def apply(self, environment: MutableMapping[str, str] = os.environ) -> None:
        """Sets the variables that change."""
        for step in self.steps:
            if step.effect in ("set", "replace"):
                environment[step.variable] = step.value


def resolve(plan: Mapping[str, Any], topology: Topology, environment: Mapping[str, str] = os.environ) -> Resolved:
    """Resolves the plan for one process with its current variables.

    Raises ValueError, whose message lists all values that cannot be computed from the topology and the environment.
    """
    port = plan.get("coordinator", {}).get("default_port", PORT)
    scope = _Scope(topology, environment, port)
    faults: List[str] = []
    steps: List[Step] = []
    for index, rule in enumerate(plan.get("environment", [])):
        if not _holds(rule, topology, environment):
            continue
        variable, override = rule["variable"], rule.get("set", "default") == "override"
        current = environment.get(variable)
        try:
            value = scope.fill(rule["value"])
        except ValueError as fault:
            # If the variable keeps its current value, the new one is not needed.
            if override or current is None:
                faults.append(f"environment[{index}] {variable}: {fault}")
            continue
        if current is None:
            effect = "set"
        elif current == value:
            effect = "unchanged"
        else:
            effect = "replace" if override else "keep"
        steps.append(Step(variable, value, effect, rule.get("before", "load"), rule.get("reason", "")))
    values: Dict[str, Any] = {}
    for index, rule in enumerate(plan.get("options", [])):
        if _holds(rule, topology, environment):
            try:
                values[rule["name"]] = _options.parse(rule["type"], scope.fill(rule["value"]))
            except ValueError as fault:
                faults.append(f"options[{index}] {rule['name']}: {fault}")
    coordinator = None
    if needs_coordinator(plan, topology):
        address = topology.coordinator or (("localhost", None) if topology.host_count == 1 else None)
        if address is None:
            faults.append("coordinator: where it listens is not known; set MASTER_ADDR to the host of rank 0")
        else:
            coordinator = _show(address, port)
    if faults:
        raise ValueError("; ".join(faults))
    return Resolved(steps, values, coordinator)


def needs_coordinator(plan: Mapping[str, Any], topology: Topology) -> bool:
    """Whether clients need a key-value store that all processes share."""
    need = plan.get("coordinator", {}).get("need", "never")
    return need == "always" or (need == "multi_process" and topology.world_size > 1)


def chip_count(
    plan: Mapping[str, Any],
    environment: Mapping[str, str] = os.environ,
    folder: Optional[Callable[[str], List[str]]] = None,
) -> Optional[int]:
    """Number of devices of this host, from the first probe that finds any."""
    for probe in plan.get("chips", [{"from": "constant", "count": 1}]):
        if probe["from"] == "constant":
            count = probe["count"]
        elif probe["from"] == "variable":
            count = _count(environment, probe["name"]) or 0
        else:
            path, _, pattern = probe["glob"].rpartition("/")
            names = (folder or _folder)(path or "/")
            count = sum(fnmatch.fnmatchcase(name, pattern) for name in names)
        if count > 0:
            return count
    return None


def _folder(path: str) -> List[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def host_index(plan: Mapping[str, Any], topology: Topology, environment: Mapping[str, str] = os.environ) -> int:
    """Index of the host in the plugin's numbering."""
    for name in plan.get("host_index", {}).get("names", []):
        index = _count(environment, name)
        if index is not None:
            return index
    return topology.host_index


def _holds(rule: Mapping[str, Any], topology: Topology, environment: Mapping[str, str]) -> bool:
    conditions = {
        "single_process": topology.world_size == 1,
        "multi_process": topology.world_size > 1,
        "sole_on_host": topology.local_world_size == 1,
        "shared_host": topology.local_world_size > 1,
        "one_device": topology.one_device,
        "all_devices": not topology.one_device,
    }
    return all(conditions[when] for when in rule.get("when", [])) and not any(
        environment.get(name) for name in rule.get("unless_set", [])
    )


class _Unknown(ValueError):
    """The value of a choice is not known. The next choice of the slot is used instead."""


def _url_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _show(address: Tuple[str, Optional[int]], port: int) -> str:
    return f"{_url_host(address[0])}:{port if address[1] is None else address[1]}"


class _Scope:
    """The values that templates refer to."""

    def __init__(self, topology: Topology, environment: Mapping[str, str], port: int) -> None:
        self.topology = topology
        self.environment = environment
        self.port = port

    def fill(self, template: str) -> str:
        """Replaces slots such as `{host_in_slice*local_world_size+local_rank}` by their values."""
        # Quoted text may contain braces, so the pattern for a slot is not simply `{[^}]*}`.
        token = re.compile(r"\{\{|\}\}|\{((?:[^'}]|'[^']*')*)\}|([{}])")

        def replace(match: "re.Match[str]") -> str:
            if match[2]:
                raise ValueError(f"{template!r} contains a {match[2]!r} without the matching brace")
            return match[0][0] if match[0] in ("{{", "}}") else self._slot(match[1])

        return token.sub(replace, template)

    def _slot(self, slot: str) -> str:
        unknown = []
        for choice in re.findall(r"(?:[^'|]|'[^']*')+", slot):
            try:
                return self._choice(choice.strip())
            except _Unknown as gap:
                unknown.append(str(gap))
        raise ValueError(", and ".join(unknown) or f"unknown placeholder {slot!r}")

    def _choice(self, text: str) -> str:
        topology = self.topology
        if text.startswith("'"):
            return text[1:-1]
        if text.startswith("env:"):
            name, bracket, index = text[4:].partition("[")
            if bracket:
                return self._item(name.strip(), self._sum(index[:-1]))
            return self._variable(name.strip())
        if text.startswith("process_addresses:"):
            first = int(text.partition(":")[2])
            ports = range(first, first + topology.local_world_size)
            if ports[-1] > 65535:
                raise ValueError("the ports of the processes exceed 65535; choose a lower first port")
            return ",".join(f"{host}:{port}" for host in self._hosts() for port in ports)
        if text.startswith("mesh_product:"):
            left, _, right = text.partition(":")[2].partition(",")
            return self._mesh_product(left.strip(), right.strip())
        if text == "hosts":
            return ",".join(self._hosts())
        if text.startswith("coordinator"):
            if topology.coordinator is None:
                raise _Unknown("the coordinator is unknown; set MASTER_ADDR or JAX_COORDINATOR_ADDRESS")
            host, port = topology.coordinator
            shown = {
                "coordinator": _show(topology.coordinator, self.port),
                "coordinator_host": _url_host(host),
                "coordinator_port": str(self.port if port is None else port),
            }
            if text in shown:
                return shown[text]
        return str(self._sum(text))

    def _sum(self, text: str) -> int:
        total = 0
        for product in text.split("+"):
            value = 1
            for factor in product.split("*"):
                value *= self._factor(factor.strip())
                self._check(value)
            total += value
            self._check(total)
        return total

    @staticmethod
    def _check(value: int) -> None:
        if value > _U64:
            raise ValueError("the sum does not fit into 64 bits")

    def _factor(self, name: str) -> int:
        if re.fullmatch(r"[0-9]+", name):
            return int(name)
        if name in (
            "local_rank",
            "local_world_size",
            "global_rank",
            "world_size",
            "host_index",
            "host_count",
            "host_in_slice",
            "hosts_per_slice",
            "slice_index",
            "slice_count",
        ):
            return getattr(self.topology, name)
        raise ValueError(f"unknown placeholder {name!r}")

    def _variable(self, name: str) -> str:
        value = self.environment.get(name) or self.topology.attributes.get(name)
        if value is None:
            raise _Unknown(f"{name} is not set")
        return value

    def _item(self, name: str, index: int) -> str:
        text = self._variable(name)
        items: List[str] = []
        for item in (item.strip() for item in text.split(",")):
            span = re.fullmatch(r"\s*\+?([0-9]+)\s*-\s*\+?([0-9]+)\s*", item)
            if span is None:
                items.append(item)
                continue
            first, last = int(span[1]), int(span[2])
            if not first <= last < first + 65536:
                problem = f"the range {item!r} counts down or has more than 65536 numbers; write the lower number first"
                raise ValueError(f"{name}={text!r}: {problem}")
            items.extend(str(number) for number in range(first, last + 1))
        if index >= len(items):
            problem = f"the list has {len(items)} items and lacks item {index}, counted from 0"
            raise ValueError(f"{name}={text!r}: {problem}; list one item for each process")
        return items[index]

    def _hosts(self) -> Tuple[str, ...]:
        if self.topology.hosts:
            return self.topology.hosts
        if self.topology.hosts_per_slice == 1:
            return ("localhost",)
        raise _Unknown("the names of the hosts are unknown; set TPU_WORKER_HOSTNAMES")

    def _mesh_product(self, left: str, right: str) -> str:
        meshes = []
        for name in (left, right):
            text = self._variable(name)
            if not re.fullmatch(r"\s*\+?[0-9]+\s*(,\s*\+?[0-9]+\s*)*", text):
                raise ValueError(f"{name}={text!r} is not a mesh; write numbers such as 2,2,1")
            meshes.append([int(axis) for axis in text.split(",")])
        if len(meshes[0]) != len(meshes[1]):
            raise ValueError(f"{left} has {len(meshes[0])} axes, but {right} has {len(meshes[1])}; write the same number in both")
        axes = [a * b for a, b in zip(*meshes)]
        if any(axis > _U64 for axis in axes):
            raise ValueError(f"the product of {left} and {right} does not fit into 64 bits")
        return ",".join(map(str, axes))
