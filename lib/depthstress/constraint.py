"""Decoding held to a grammar: which tokens are legal now, which are forced, and when to stop.

llguidance does the work: compiling our grammars takes it some 10 ms, and a mask 40 microseconds (medians on one core). It knows nothing of
the model or of the loop around it: for each text, `allow` masks a row of logits, `accept` takes the token that was chosen.

Tokens and texts don't map one to one: `PUSH` can be written as PUSH, or as P and USH. Where the grammar leaves only one text, the mask
allows that text in the model's own tokenisation alone, and so these tokens are the ones that masking token by token chooses;
`forced` gives them at once. Where a forced text could still grow together with what follows it into a longer token, its last
tokens are not forced: the model chooses. Elsewhere every token is legal whose text the grammar can go on with.
Special tokens are never text.
"""

from __future__ import annotations

from functools import lru_cache

import llguidance
import numpy as np
import torch


class Constraint:
    """A grammar (GBNF, from the rule `root`) compiled for a tokenizer.

    vocab_size: the length of a row of logits, which may exceed the tokenizer's (padded embeddings; those tokens are never legal).
    stops: the tokens that end a text; legal where the grammar may end.
    Compiled once for the same text, tokenizer and stops. Raises ValueError for a grammar that does not compile, and for a
    tokenizer that is not one of transformers' fast ones.
    """

    def __init__(self, grammar: str, tokenizer, vocab_size: int, stops: tuple[int, ...]) -> None:
        self.vocab_size = vocab_size
        self._compiled = _compiled(grammar, tokenizer, vocab_size, tuple(stops))

    def start(self) -> Matcher:
        """A matcher at the beginning of a text."""
        return Matcher(self._compiled.deep_copy(), self.vocab_size)


class Matcher:
    """One text on its way through a grammar."""

    def __init__(self, matcher: llguidance.LLMatcher, vocab_size: int) -> None:
        self._matcher, self._vocab_size = matcher, vocab_size

    def allow(self, logits_row: torch.Tensor) -> None:
        """Set the logits of illegal tokens to minus infinity, in place; the row has shape (vocab_size,) and may lie on any device.
        Raises ValueError for another shape."""
        if logits_row.shape != (self._vocab_size,):
            raise ValueError(f"a row of {self._vocab_size} logits is expected, not one of shape {tuple(logits_row.shape)}")
        illegal = torch.from_numpy(~_legal(self._matcher, self._vocab_size))
        logits_row.masked_fill_(illegal.to(logits_row.device), float("-inf"))

    def accept(self, token: int) -> None:
        """Go on by a token. Raises ValueError for one that the grammar can't go on with; the matcher is of no use after that."""
        if not self._matcher.consume_token(token):
            raise ValueError(f"token {token} is illegal here: {_error(self._matcher)}")

    def forced(self) -> list[int]:
        """The tokens that must come next, each the only legal one in its place (none of them an end token); nothing is accepted."""
        ahead, forced = self._matcher.deep_copy(), []
        for token in self._matcher.compute_ff_tokens():
            legal = _legal(ahead, self._vocab_size)
            if not legal[token] or legal.sum() != 1:
                break
            ahead.consume_token(token)
            forced.append(token)
        return forced

    @property
    def over(self) -> bool:
        """Whether the grammar has ended, so that only an end token is legal, or was accepted."""
        return self._matcher.is_stopped()


def _legal(matcher: llguidance.LLMatcher, vocab_size: int) -> np.ndarray:
    bits = np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8)
    return np.unpackbits(bits, count=vocab_size, bitorder="little").view(bool)


def _error(matcher: llguidance.LLMatcher) -> str:
    return matcher.get_error().partition("\n")[0]  # the rest is a dump of the parser's state


@lru_cache(maxsize=256)
def _compiled(grammar: str, tokenizer, vocab_size: int, stops: tuple[int, ...]) -> llguidance.LLMatcher:
    text = llguidance.grammar_from("gbnf", grammar)  # a ValueError says where it is no GBNF
    matcher = llguidance.LLMatcher(_vocabulary(tokenizer, vocab_size, stops), text, log_level=0)
    if matcher.is_error():
        raise ValueError(f"the grammar does not compile: {_error(matcher)}")
    return matcher


@lru_cache(maxsize=4)
def _vocabulary(tokenizer, vocab_size: int, stops: tuple[int, ...]) -> llguidance.LLTokenizer:
    """The tokenizer as llguidance wants it; takes a second."""
    from llguidance.hf import from_tokenizer  # imports transformers

    return from_tokenizer(tokenizer, n_vocab=vocab_size, eos_token=list(stops))
