from __future__ import annotations

import re
from itertools import islice

from paceline.runtime import prose
from paceline.runtime.tokenizer import Tokenizer


def test_every_word_is_one_token(tokenizer: Tokenizer) -> None:
    sentences = re.sub(r"\{\w+\}", "", prose._SENTENCES)
    words = {word for words in prose.word_lists().values() for word in words}
    words |= set(re.findall(r"[A-Za-z]+", sentences)) | {"an", "An"}
    assert len(words) > 400
    assert [word for word in sorted(words) if tokenizer.count(" " + word) != 1] == []


def test_every_word_that_begins_a_paragraph_is_one_token(tokenizer: Tokenizer) -> None:
    lines = prose._SENTENCES.strip().splitlines()
    lists = prose.word_lists()
    words = {line.split()[0] for line in lines if not line.startswith("{")} | {"An"}
    for line in lines:
        if line.startswith("{"):
            words |= set(lists[line[1 : line.index("}")]])
    assert [word for word in sorted(words) if tokenizer.count(word) != 1] == []


def test_paragraphs_read_like_prose() -> None:
    for tokens in islice(prose.paragraphs(3), 200):
        text = "".join(tokens)
        assert text.endswith(".\n\n")
        assert text[0].isupper()
        assert not re.search(r"\b[Aa] [aeiou]|  |[{}]| [.,;]", text)
        for sentence in text.strip().split(". "):
            assert sentence[0].isupper()
            assert len(sentence.split()) >= 4


def test_the_same_seed_gives_the_same_paragraphs() -> None:
    first = list(islice(prose.paragraphs(1), 20))
    assert first == list(islice(prose.paragraphs(1), 20))
    assert first != list(islice(prose.paragraphs(2), 20))
