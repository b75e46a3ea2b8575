"""Constrained decoding: masks, forced tokens, ends, and that a greedy loop writes nothing else."""

import random

import pytest
import torch

from depthstress.constraint import Constraint
from depthstress.grammar import answer_grammar, instruction_grammar, program_grammar
from depthstress.interpreter import execute, parse
from depthstress.opcodes import Kind

GREETING = 'root ::= "hello " ("you" | "world" | "word")? "\\n"\n'


@pytest.fixture(scope="session")
def merging_tokenizer():
    """A tokenizer with longer tokens, trained on instructions, with two special tokens."""
    from tokenizers import Tokenizer, decoders, pre_tokenizers, trainers
    from tokenizers.models import BPE
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    texts = ["PUSH_TEXT kc-1\nSTRIP_HYPHENS\nLOWER\n", "PUSH_LIST 3 17\nSUM\nADD 25\n", "hello world\nhello word\n"] * 20
    trainer = trainers.BpeTrainer(
        vocab_size=360, special_tokens=["<end>", "<turn>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", additional_special_tokens=["<turn>"])


def legal(matcher, size):
    row = torch.zeros(size)
    matcher.allow(row)
    assert set(row.tolist()) <= {0.0, float("-inf")}
    return (row == 0).nonzero().flatten().tolist()


def text_of(tokenizer, tokens):
    return [tokenizer.decode([token]) for token in tokens]


def encoded(tokenizer, text):
    return tokenizer(text, add_special_tokens=False).input_ids


def test_only_what_the_grammar_goes_on_with_is_legal(byte_tokenizer):
    size = len(byte_tokenizer)
    matcher = Constraint(GREETING, byte_tokenizer, size, (byte_tokenizer.eos_token_id,)).start()
    for token in encoded(byte_tokenizer, "hello "):
        assert legal(matcher, size) == [token]
        matcher.accept(token)
    assert sorted(text_of(byte_tokenizer, legal(matcher, size))) == ["\n", "w", "y"]


def test_logits_of_legal_tokens_stay(byte_tokenizer):
    size = len(byte_tokenizer)
    matcher = Constraint(answer_grammar(), byte_tokenizer, size, (byte_tokenizer.eos_token_id,)).start()
    row = torch.arange(size, dtype=torch.bfloat16)
    matcher.allow(row)
    [first] = encoded(byte_tokenizer, "F")
    assert row[first] == first and row.argmax() == first
    assert torch.isneginf(row).sum() == size - 1


def test_end_tokens_are_legal_where_the_grammar_may_end(byte_tokenizer):
    size, end, other_end = len(byte_tokenizer) + 7, byte_tokenizer.eos_token_id, 5
    matcher = Constraint(program_grammar(most=1), byte_tokenizer, size, (end, other_end)).start()
    for n, token in enumerate(encoded(byte_tokenizer, "PUSH 5\nADD 1\n")):
        assert (end in legal(matcher, size)) == (other_end in legal(matcher, size)) == (n == len("PUSH 5\n"))
        assert not matcher.over
        matcher.accept(token)
    assert matcher.over
    assert legal(matcher, size) == [other_end, end]
    assert matcher.forced() == []
    matcher.accept(other_end)
    assert matcher.over


def test_an_end_token_can_be_taken_before_the_grammar_is_exhausted(byte_tokenizer):
    size, end = len(byte_tokenizer), byte_tokenizer.eos_token_id
    matcher = Constraint(program_grammar(), byte_tokenizer, size, (end,)).start()
    for token in encoded(byte_tokenizer, "PUSH 5\n"):
        matcher.accept(token)
    assert not matcher.over
    matcher.accept(end)
    assert matcher.over


def test_an_illegal_token_is_an_error(byte_tokenizer):
    size, end = len(byte_tokenizer), byte_tokenizer.eos_token_id
    constraint = Constraint(GREETING, byte_tokenizer, size, (end,))
    for token in (end, *encoded(byte_tokenizer, "x")):
        with pytest.raises(ValueError, match=f"^token {token} is illegal here: [^\n]*$"):
            constraint.start().accept(token)


def test_special_and_padding_tokens_are_never_text(merging_tokenizer):
    size = len(merging_tokenizer) + 20
    matcher = Constraint(program_grammar(), merging_tokenizer, size, (merging_tokenizer.eos_token_id,)).start()
    for token in encoded(merging_tokenizer, "PUSH_TEXT a"):
        matcher.accept(token)
    allowed = legal(matcher, size)
    assert len(allowed) > 150
    assert max(allowed) < len(merging_tokenizer)
    assert not {merging_tokenizer.eos_token_id, merging_tokenizer.convert_tokens_to_ids("<turn>")} & set(allowed)


@pytest.mark.parametrize("grammar", ["root = 3", "root ::= nowhere", 'root ::= "a" [', 'start ::= "a"', ""])
def test_a_grammar_that_does_not_compile_is_refused(byte_tokenizer, grammar):
    with pytest.raises(ValueError):
        Constraint(grammar, byte_tokenizer, len(byte_tokenizer), (byte_tokenizer.eos_token_id,))


def test_a_row_of_another_length_is_refused(byte_tokenizer):
    matcher = Constraint(GREETING, byte_tokenizer, len(byte_tokenizer), (byte_tokenizer.eos_token_id,)).start()
    with pytest.raises(ValueError, match="a row of 257 logits is expected"):
        matcher.allow(torch.zeros(300))


def test_matchers_of_a_constraint_are_independent(byte_tokenizer):
    size = len(byte_tokenizer)
    constraint = Constraint(GREETING, byte_tokenizer, size, (byte_tokenizer.eos_token_id,))
    first, second = constraint.start(), constraint.start()
    first.accept(first.forced()[0])
    assert second.forced() == encoded(byte_tokenizer, "hello ")
    assert first.forced() == second.forced()[1:]


GRAMMARS = {
    "program": program_grammar(),
    "numbered": program_grammar("numbered", final=True, most=2),
    "one operation": program_grammar(least=1, most=1),
    "instruction": instruction_grammar(Kind.TEXT, False),
    "answer": answer_grammar(),
}


@pytest.mark.parametrize("grammar", GRAMMARS.values(), ids=GRAMMARS)
@pytest.mark.parametrize("which", ["byte_tokenizer", "merging_tokenizer"])
def test_forced_tokens_are_what_masking_token_by_token_leaves(request, which, grammar):
    tokenizer = request.getfixturevalue(which)
    size, end = len(tokenizer), tokenizer.eos_token_id
    constraint = Constraint(grammar, tokenizer, size, (end,))
    rng = random.Random(0)
    jumps = 0
    for _ in range(25):
        matcher, written = constraint.start(), []
        for _ in range(60):
            if matcher.over:
                break
            forced = matcher.forced()
            jumps += len(forced) > 1
            for token in forced:
                assert legal(matcher, size) == [token]
                matcher.accept(token)
            written += forced
            if matcher.over:
                break
            token = rng.choice(legal(matcher, size))
            matcher.accept(token)
            written.append(token)
        else:
            continue
        replay = constraint.start()
        for token in written:
            assert token in legal(replay, size)
            replay.accept(token)
        assert replay.over
    assert jumps


def test_forced_text_is_written_as_the_tokenizer_writes_it(merging_tokenizer):
    matcher = Constraint(GREETING, merging_tokenizer, len(merging_tokenizer), (merging_tokenizer.eos_token_id,)).start()
    assert "".join(text_of(merging_tokenizer, matcher.forced())) in ("hello", "hello ")
    assert matcher.forced() == encoded(merging_tokenizer, "hello world")[: len(matcher.forced())]


def greedy(base, grammar, limit):
    """The plain loop: the text that a model writes under a grammar, or None where the limit came first."""
    size = base.model.config.vocab_size
    matcher = Constraint(grammar, base.tokenizer, size, base.stops).start()
    tokens = base.tokens("PUSH 5")
    begun = len(tokens)
    with torch.inference_mode():
        while len(tokens) - begun < limit:
            row = base.model(torch.tensor([tokens])).logits[0, -1]
            matcher.allow(row)
            token = int(row.argmax())
            if token in base.stops:
                return base.tokenizer.decode(tokens[begun:])
            matcher.accept(token)
            tokens.append(token)
    return None


@pytest.mark.parametrize("which", ["tiny_base", "tiny_qwen3"])
@pytest.mark.parametrize("keys", [(), ("a", "b")])
def test_a_model_with_random_weights_writes_valid_instructions(request, which, keys):
    base = request.getfixturevalue(which)
    texts = {kind: greedy(base, instruction_grammar(kind, False, keys), 80) for kind in (Kind.NUMBER, Kind.DATE, Kind.LIST, Kind.TEXT)}
    assert all(text and text.endswith("\n") and text.count("\n") == 1 for text in texts.values()), texts
    loads = {Kind.NUMBER: "PUSH 5", Kind.DATE: "PUSH_DATE 2026-01-01", Kind.LIST: "PUSH_LIST 1 2", Kind.TEXT: "PUSH_TEXT ab"}
    for kind, text in texts.items():
        execution = execute(parse(f"{loads[kind]}\n{text}"))
        assert execution.error is None or execution.error.reason == "limit"
