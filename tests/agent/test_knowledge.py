"""The pages: well-formed, found by what people ask, and cited by ids that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

import akg_tui.knowledge
from akg_tui.knowledge import BadPage, Library, library, read_page, read_user_page

PAGES = Path(akg_tui.knowledge.__file__).parent / "pages"


def test_there_is_something_to_read_for_every_dsl_and_backend() -> None:
    pages = library().pages
    assert len(pages) >= 12
    for dsl, backend in (
        ("cpp", "cpu"),
        ("torch", "cpu"),
        ("triton", "cuda"),
        ("cuda_cpp", "cuda"),
        ("triton", "ascend"),
    ):
        assert len([p for p in pages if p.fits(dsl, backend)]) >= 4


def test_every_page_is_short_and_its_front_matter_is_yaml() -> None:
    for page in library().pages:
        text = (PAGES / f"{page.id}.md").read_text("utf-8")
        front = yaml.safe_load(text.split("---")[1])
        assert front["title"] == page.title
        assert front["summary"] == page.summary
        assert 8 <= len(page.body.splitlines()) <= 40
        assert all(len(line) <= 110 for line in page.body.splitlines()), page.id


def test_a_page_that_another_one_cites_exists() -> None:
    for page in library().pages:
        for cited in re.findall(r"k:([a-z0-9-]+)", page.body):
            assert library().page(cited) is not None, (page.id, cited)


def test_what_was_not_run_on_the_hardware_says_so() -> None:
    for page in library().pages:
        if "ascend" in page.backend and "cuda" not in page.backend:
            assert "not verified on hardware" in page.body


@pytest.mark.parametrize(
    ("query", "dsl", "backend", "first"),
    [
        ("vectorise inner loop aliasing", "cpp", "cpu", "cpp-vectorise"),
        ("vectorization of loops", "cpp", "cpu", "cpp-vectorise"),
        ("compiler flags march fast-math", "cpp", "cpu", "cpp-flags"),
        ("cache tile matmul register", "cpp", "cpu", "cpp-blocking"),
        ("expf is slow, denormals", "cpp", "cpu", "cpp-exp"),
        ("OpenMP threads false sharing", "cpp", "cpu", "cpp-threads"),
        ("memory bandwidth passes over data", "cpp", "cpu", "cpp-memory"),
        ("online softmax", "triton", "cuda", "softmax-online"),
        ("num_warps block size", "triton", "cuda", "triton-blocks"),
        ("coalesced loads mask", "triton", "cuda", "triton-memory"),
        ("tl.dot tiles", "triton", "cuda", "triton-matmul"),
        ("coalesced wide loads float4", "cuda_cpp", "cuda", "cuda-memory"),
        ("bank conflicts padding", "cuda_cpp", "cuda", "cuda-shared-memory"),
        ("registers spill block size occupancy", "cuda_cpp", "cuda", "cuda-occupancy"),
        ("tensor cores wgmma", "cuda_cpp", "cuda", "cuda-tensor-cores"),
        ("unified buffer alignment", "triton", "ascend", "triton-ascend"),
        ("permute contiguous copy", "torch", "cpu", "torch-views"),
        ("int8 VNNI vpdpbusd saturates", "cpp", "cpu", "cpp-int8"),
        ("weight packing panels", "cpp", "cpu", "cpp-weights"),
        ("512 bytes alignment of transfers", "triton", "ascend", "ascend-memory"),
        ("double buffering overlaps transfer and arithmetic", "triton", "ascend", "ascend-pipes"),
        ("cumsum prefix scan", "triton", "cuda", "scans"),
        ("attention over keys without the score matrix", "cpp", "cpu", "attention"),
        ("depthwise conv winograd", "cpp", "cpu", "convolution"),
        ("out= buffer in place", "torch", "cpu", "torch-inplace"),
    ],
)
def test_the_page_that_is_meant_comes_first(query, dsl, backend, first) -> None:
    found = library().search(query, dsl=dsl, backend=backend)
    assert found[0].id == first
    assert all(page.fits(dsl, backend) for page in found)


def test_a_search_for_nothing_finds_nothing_and_the_order_is_fixed() -> None:
    assert library().search("zzzz qqqq") == []
    assert library().search("") == []
    assert library().search("softmax loop") == library().search("loop softmax")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("no front matter", "has no front matter"),
        ("---\ntitle: a\n---\n\nbody", "p: lacks dsl"),
        ("---\ntitle: a\nauthor: me\n---\n\nbody", "p:3: expected one of"),
    ],
)
def test_a_page_that_is_none_is_told(text: str, why: str) -> None:
    with pytest.raises(BadPage, match=re.escape(why)):
        read_page("p", text)


def test_a_page_of_the_user_may_have_no_front_matter_and_hides_none_of_ours() -> None:
    page = read_user_page("cpp-flags", "# Our build farm\n\nUse -march=znver4 there.\n")
    assert (page.cited, page.title) == ("k:mine/cpp-flags", "Our build farm")
    assert page.fits("cpp", "cpu")
    assert page.fits("triton", "cuda")
    both = Library([*library().pages, page])
    assert both.page("k:cpp-flags") == library().page("k:cpp-flags")
    assert both.search("build farm znver4")[0] == page
    with pytest.raises(BadPage, match="empty"):
        read_user_page("p", "\n")
    with pytest.raises(BadPage, match="p:3: expected one of"):
        read_user_page("p", "---\ntitle: a\nauthor: me\n---\n\nbody")
