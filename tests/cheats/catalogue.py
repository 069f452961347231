"""All kernels that try to look right or fast without being so, by class."""

from __future__ import annotations

from tests.cheats.beside_the_clock import BESIDE_THE_CLOCK, BESIDE_TRICKS
from tests.cheats.floods import FLOODS
from tests.cheats.harness import HARNESS
from tests.cheats.neglected_inputs import EQUAL_IN_EVERY_DRAW, NEGLECTED
from tests.cheats.phases import PHASES
from tests.cheats.remembering import MEMORIES
from tests.cheats.time_tricks import TIME_TRICKS
from tests.cheats.wrong_answers import DECIDED, EASY_ANSWERS, FORMS, NUMBERS

MUST_FAIL = (
    *EASY_ANSWERS,
    *NUMBERS,
    *FORMS,
    *DECIDED,
    *NEGLECTED,
    *EQUAL_IN_EVERY_DRAW,
    *MEMORIES,
    *PHASES,
    *BESIDE_THE_CLOCK,
    *HARNESS,
    *FLOODS,
)
MUST_NOT_LOOK_FASTER = (*TIME_TRICKS, *BESIDE_TRICKS)
