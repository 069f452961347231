"""A contract fake of CANN's bisheng: takes the command lines that this project makes, no others.

A `.asc` file is compiled by the system's g++ against a few declarations of Ascend C; a launch
`kernel<<<blocks, nullptr, stream>>>(…)` becomes a loop over the blocks on the host. Errors have
clang's form, which bisheng's are. Each call adds its arguments, as a line, to the file that
`FAKE_BISHENG_LOG` names.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

HEADER = """
#include <cstdint>
#define __global__
#define __aicore__
#define __gm__
using GM_ADDR = uint8_t *;
using aclrtStream = void *;
using aclError = int;
static uint32_t fake_block, fake_blocks;
namespace AscendC {
inline uint32_t GetBlockIdx() { return fake_block; }
inline uint32_t GetBlockNum() { return fake_blocks; }
}
"""
LAUNCH = re.compile(r"(\w+)<<<(\w+), *nullptr, *\w+>>>\((.*?)\);")
LOOP = r"for (fake_blocks = \2, fake_block = 0; fake_block < fake_blocks; ++fake_block) \1(\3);"


def main(words: list[str]) -> int:
    """Do what bisheng does for these arguments."""
    if log := os.environ.get("FAKE_BISHENG_LOG"):
        with Path(log).open("a") as opened:
            opened.write(" ".join(words) + "\n")
    if words == ["--version"]:
        print("bisheng: a contract fake, version 0.0")
        return 0
    assert {"-shared", "-fPIC"} <= set(words), words
    assert words[-3:] == ["kernel.asc", "-o", "kernel.so"], words
    assert [word for word in words if word.startswith("--npu-arch=dav-")], words
    written = Path("kernel.asc").read_text()
    source = re.sub(r'#include "(?:kernel_operator|acl/acl)\.h"', "", written)
    text = f'{HEADER}\n#line 1 "kernel.asc"\n{LAUNCH.sub(LOOP, source)}'
    Path("seen.cpp").write_text(text)
    options = [word for word in words if word.startswith("-D")]
    return subprocess.run(
        ["g++", "-std=c++17", "-w", "-shared", "-fPIC", *options, "seen.cpp", "-o", "kernel.so"],
        check=False,
    ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
