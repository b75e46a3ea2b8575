"""The table of instructions."""

import inspect

from depthstress.opcodes import OPCODES, Kind, Operand, reference_card

PUBLISHED_OPCODES = set(
    "PUSH_TEXT PUSH PUSH_DATE PUSH_LIST TABLE STRIP_HYPHENS REVERSE LOWER UPPER TAKE_PREFIX TAKE_SUFFIX SLICE ADD SUB MUL "
    "LOOKUP ADD_LOOKUP ADD_DAYS ADD_WEEKS SUM MAX MIN BASENAME DIRNAME EXTENSION STRIP_EXT".split()
)


def test_holds_exactly_the_published_instruction_set():
    assert set(OPCODES) == PUBLISHED_OPCODES


def test_every_row_is_complete():
    for name, row in OPCODES.items():
        assert row.name == name == name.upper()
        assert row.help
        assert all(isinstance(operand, Operand) for operand in row.operands)
        assert all(isinstance(kind, Kind) for kind in row.takes)
        arguments = 1 + len(row.takes) + len(row.operands)  # the table first
        assert len(inspect.signature(row.effect).parameters) == arguments, name


def test_reference_card_has_a_line_an_opcode():
    lines = reference_card().splitlines()
    assert [line.split()[0] for line in lines] == list(OPCODES)
    assert "ADD [n]" in reference_card()
    assert "SLICE count count" in reference_card()
