"""What Ascend's tools print, as contract fakes: no NPU was at hand.

Written in the form that the tools' documentation and users' published reports show, with figures
of our own.
"""

from __future__ import annotations

NPU_SMI_A2 = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.0                   Version: 24.1.0                                               |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B3               | OK            | 98.4        37                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          3394 / 65536         |
+===========================+===============+====================================================+
| 1     910B3               | Alarm         | 89.3        35                0    / 0             |
| 0                         | 0000:C2:00.0  | 0           0    / 0          41697/ 65536         |
+===========================+===============+====================================================+
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| 0       0                 | 111           | python                   | 190                     |
+===========================+===============+====================================================+
"""

NPU_SMI_A3 = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 25.0.rc1                 Version: 25.0.rc1                                             |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip  Phy-ID              | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     Ascend910           | OK            | 162.6       34                0    / 0             |
| 0     0                   | 0000:9D:00.0  | 0           0    / 0          3419 / 65536         |
+------------------------------------------------------------------------------------------------+
| 0     Ascend910           | OK            | -           34                0    / 0             |
| 1     1                   | 0000:9F:00.0  | 0           0    / 0          2874 / 65536         |
+===========================+===============+====================================================+
"""

COMPILER_REFUSES = """
///------------------[ERROR][Triton][BEG]------------------
[ConvertLinalgRToBinary] encounters error:
loc("/tmp/tmp1/kernel.ttadapter.mlir":2:3): error: ub overflow, requires 3145984 bits while \
1572864 bits available! (possible reason: tiling basic block is too large or block number is more \
than what user expect due to multi-buffer feature is enabled and some ops need extra local buffer. )
///------------------[ERROR][Triton][END]------------------
"""

OP_SUMMARY = """\
Device_id,Model ID,Task ID,Stream ID,Op Name,OP Type,OP State,Task Type,Task Start Time(us),\
Task Duration(us),Task Wait Time(us),Block Dim,Mix Block Dim,HF32 Eligible,Input Shapes,\
Input Data Types,Input Formats,Output Shapes,Output Data Types,Output Formats,Context ID,\
aicore_time(us),aic_total_cycles,aic_mac_time(us),aic_mac_ratio,aic_scalar_time(us),\
aic_scalar_ratio,aic_mte1_time(us),aic_mte1_ratio,aic_mte2_time(us),aic_mte2_ratio,\
aic_fixpipe_time(us),aic_fixpipe_ratio,aic_icache_miss_rate,aiv_time(us),aiv_total_cycles,\
aiv_vec_time(us),aiv_vec_ratio,aiv_scalar_time(us),aiv_scalar_ratio,aiv_mte2_time(us),\
aiv_mte2_ratio,aiv_mte3_time(us),aiv_mte3_ratio,aiv_icache_miss_rate,cube_utilization(%)
"""
_MATMUL = (
    "0,4294967295,{n},1,MatMulV3,MatMulV3,dynamic,AI_CORE,17175759602080{n}.758\t,{us},0,24,0,NO,"
    '"4096,1024;1024,4096",DT_BF16;DT_BF16,ND;ND,"4096,4096",DT_BF16,ND,N/A,140.106,5043798,33.09,'
    "0.236,7.419,0.053,81.861,0.584,83.023,0.793,17.645,0.126,0.006,"
    "0.0,0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,92.785\n"
)
_ROWS = (
    "0,4294967295,{n},1,softmax_rows,softmax_rows,dynamic,AI_VECTOR_CORE,17175759602081{n}.758\t,"
    '{us},1.2,48,0,NO,"4096,4096",FLOAT,ND,"4096,4096",FLOAT,ND,N/A,0.0,0,0.0,0.0,0.0,0.0,0.0,0.0,'
    "0.0,0.0,0.0,0.0,0.0,58.1,5019840,12.78,0.22,9.3,0.16,22.08,0.38,18.01,0.31,0.012,N/A\n"
)
_ON_AI_CPU = (
    "0,4294967295,{n},1,RightShift,RightShift,static,AI_CPU,17175759602082{n}.758\t,{us},3.5,1,0,"
    'N/A,"4096",INT64,ND,"4096",INT64,ND,N/A' + ",N/A" * 26 + "\n"
)
_COPY = (
    "0,4294967295,{n},1,TensorMove,TensorMove,dynamic,AI_VECTOR_CORE,1717575960207{n}.758\t,{us},"
    '0,8,0,NO,"4096,4096",FLOAT,ND,"4096,4096",FLOAT,ND,N/A' + ",0.0" * 26 + "\n"
)


def op_summary(calls: int) -> str:
    """Return `op_summary_*.csv` of so many calls of a kernel with four launches of three kinds.

    The first launch of each kernel is slower, and a copy before the calls is in no call.
    """
    rows = [_COPY.format(n=10, us="44.8")]
    for call in range(calls):
        first = 3.0 if call == 0 else 1.0
        n = 20 + 10 * call
        rows += [
            _MATMUL.format(n=n, us=f"{151.0 * first:.3f}"),
            _ROWS.format(n=n + 1, us=f"{60.0 * first:.3f}"),
            _ROWS.format(n=n + 2, us=f"{60.0 * first:.3f}"),
            _ON_AI_CPU.format(n=n + 3, us=f"{500.0 * first:.3f}"),
        ]
    return OP_SUMMARY + "".join(rows)


FAKE_MSPROF = """\
import pathlib, subprocess, sys
options = [word for word in sys.argv[1:] if word.startswith("--")]
application = sys.argv[1 + len(options):]
assert "--aic-metrics=PipeUtilization" in options, options
(out,) = [word.partition("=")[2] for word in options if word.startswith("--output=")]
done = subprocess.run(application)
if done.returncode == 0:
    folder = pathlib.Path(out) / "PROF_000001_20261125" / "mindstudio_profiler_output"
    folder.mkdir(parents=True)
    (folder / "op_summary_20261125.csv").write_text(SUMMARY)
sys.exit(done.returncode)
"""
"""A contract fake of msprof: its options, and where it writes; the figures are those above."""
