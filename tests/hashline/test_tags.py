from __future__ import annotations

from collections import Counter

import pytest

from akg_tui.hashline import Document, EditRejected, EditRequest, EditSession, Tagger, parse_ops
from akg_tui.hashline.tags import ALPHABET


def test_the_alphabet_is_600_different_pairs_of_letters() -> None:
    assert len(set(ALPHABET)) == len(ALPHABET) == 600
    assert all(len(pair) == 2 and pair.isascii() and pair.islower() for pair in ALPHABET)


def test_a_tag_depends_on_key_number_and_exact_text() -> None:
    one, other = Tagger(b"one"), Tagger(b"other")
    texts = [f"    x[{i}] = 0;" for i in range(200)]

    def differing(pairs: list[tuple[str, str]]) -> int:
        return sum(a != b for a, b in pairs)

    assert [one.tag(7, t) for t in texts] == [Tagger(b"one").tag(7, t) for t in texts]
    assert differing([(one.tag(7, t), other.tag(7, t)) for t in texts]) > 190
    assert differing([(one.tag(7, t), one.tag(8, t)) for t in texts]) > 190
    assert differing([(one.tag(7, t), one.tag(7, t + " ")) for t in texts]) > 190
    assert differing([(one.tag(7, t), one.tag(7, "\t" + t.strip())) for t in texts]) > 190


def test_tags_are_spread_evenly_over_the_alphabet() -> None:
    tagger = Tagger(b"spread")
    counts = Counter(tagger.tag(number, "}") for number in range(1, 64_701))
    assert set(counts) == set(ALPHABET)
    assert max(counts.values()) < 150  # mean 100, standard deviation 10


@pytest.mark.parametrize("key", [b"", b"k" * 65])
def test_a_key_of_the_wrong_length_is_refused(key: bytes) -> None:
    with pytest.raises(ValueError, match="1 to 64 bytes"):
        Tagger(key)


def test_a_number_off_by_up_to_five_passes_at_most_once_in_500() -> None:
    """The corpus is hard on purpose: most lines have twins right beside them."""
    tagger = Tagger(b"slips")
    body = "".join(f"    acc{i % 3} += x[{i % 4}];\n    }}\n\n" for i in range(300))
    document = Document.from_text(body, path="kernel.txt")
    count = len(document.lines)
    session = EditSession(document, tagger)
    session.view()
    tried = missed = 0
    reasons = set()
    for number in range(6, count - 5):
        tag = tagger.tag(number, document.lines[number - 1])
        for off in (-5, -3, -2, -1, 1, 2, 3, 5):
            ops = parse_ops([{"op": "replace", "from": f"{number + off}{tag}", "lines": ["!"]}])
            tried += 1
            try:
                session.check(EditRequest(ops, 0))
                missed += 1
            except EditRejected as error:
                reasons.add(error.problems[0].reason)
    assert reasons == {"slip"}
    assert tried > 7_000
    assert missed / tried <= 1 / 500
