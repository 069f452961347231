"""A contract fake of `pynvml` (nvidia-ml-py): the functions that this project calls, of one GPU.

Names, arguments and units are those of the package: clocks in MHz, power in mW.
`lacks` are functions that a driver does not support.
"""

from __future__ import annotations

from types import ModuleType, SimpleNamespace


class FakeNvml(ModuleType):
    """The module, with the state of its GPU as attributes that a test changes."""

    class NVMLError(Exception):
        pass

    def __init__(self) -> None:
        super().__init__("pynvml")
        self.clock, self.power_mw, self.heat, self.reasons = 1980, 350_000, 60, 0
        self.mig, self.pids = (0, 0), list[int]()
        self.lacks: set[str] = set()
        self.starts = True

    def _support(self, name: str) -> None:
        if name in self.lacks:
            raise self.NVMLError("Not Supported")

    def nvmlInit(self) -> None:
        if not self.starts:
            raise self.NVMLError("Driver Not Loaded")

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        assert index == 0
        return "handle"

    def nvmlSystemGetDriverVersion(self) -> str:
        return "580.10"

    def nvmlDeviceGetName(self, handle: str) -> str:
        return "NVIDIA H200"

    def nvmlDeviceGetUUID(self, handle: str) -> str:
        return "GPU-0000"

    def nvmlDeviceGetCudaComputeCapability(self, handle: str) -> tuple[int, int]:
        self._support("CudaComputeCapability")
        return 9, 0

    def nvmlDeviceGetClockInfo(self, handle: str, kind: int) -> int:
        self._support("ClockInfo")
        return {1: self.clock, 2: 3201}[kind]

    def nvmlDeviceGetMaxClockInfo(self, handle: str, kind: int) -> int:
        return {1: 1980}[kind]

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:
        return self.power_mw

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: str) -> int:
        return 700_000

    def nvmlDeviceGetTemperature(self, handle: str, sensor: int) -> int:
        return {0: self.heat}[sensor]

    def nvmlDeviceGetPersistenceMode(self, handle: str) -> int:
        self._support("PersistenceMode")
        return 1

    def nvmlDeviceGetMigMode(self, handle: str) -> tuple[int, int]:
        self._support("MigMode")
        return self.mig

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: str) -> int:
        self._support("CurrentClocksEventReasons")
        return self.reasons

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: str) -> int:
        return self.reasons

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[SimpleNamespace]:
        return [SimpleNamespace(pid=pid) for pid in self.pids]
