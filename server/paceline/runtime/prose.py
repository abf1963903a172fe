"""Sentences for the default text: a small grammar over words that are one token each.

Nothing is said in them that could be taken for an answer, a fact or an opinion; they have to be
pleasant to watch and exact to count. Every word, with the space before it, is one token of
o200k_base, and so is every mark, so a text's tokens are known without encoding it. A test holds
the lists to that.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

_WORDS: dict[str, str] = {
    "thing": """
        lamp table letter basket window door ladder bottle kettle blanket map clock mirror book
        notebook pencil drawer key bell rope boat chair coat hat bench wheel engine cart stone
        branch leaf flower apple loaf plate cup box bag chest photograph picture candle stove
        radio shelf ribbon needle button brush hammer wire pipe bucket wagon sail anchor flag piano
        violin drum poem recipe ticket coin ring
    """,
    "made": """
        old small narrow green grey blue heavy pale wooden empty plain simple tall round clean
        fresh dark golden silver strange modest rough thin thick short long broken painted
        familiar ordinary lovely tiny large polished curious
    """,
    "place": """
        garden river kitchen bridge valley harbor station market library village field forest
        meadow hill tower mill square street road path stairs cellar workshop school theater island
        lake shore beach cliff orchard farm barn yard courtyard gallery museum office hall tunnel
        corner railway church inn cottage pond
    """,
    "lying": """
        old small quiet bright narrow green grey empty broad plain peaceful distant familiar
        pleasant busy hidden lovely strange dark deep wide long lonely famous little wild
    """,
    "person": """
        gardener teacher painter neighbor doctor baker driver sailor farmer clerk child mother
        father sister brother cousin uncle visitor stranger guest student writer poet musician
        captain engineer carpenter traveler guide librarian singer merchant nurse pilot
        fisherman shepherd tailor girl boy woman man
    """,
    "kind": """
        old young quiet gentle careful patient curious tall honest proper modest famous clever
        kind wise friendly cheerful busy polite brave tired
    """,
    "animal": "dog cat horse bird fox rabbit goat duck owl robin cow sheep mouse bee",
    "saw": """
        found noticed moved remembered described watched admired borrowed cleaned covered drew
        examined followed held liked lost measured mentioned missed needed touched wanted
        brought bought carried painted repaired recognized photographed
    """,
    "went": "walked wandered ran hurried climbed danced returned travelled marched turned moved",
    "stayed": """
        waited stayed slept rested sat stood worked sang smiled laughed paused listened played
        stopped read whispered
    """,
    "how": """
        slowly quietly gently carefully calmly gladly patiently quickly twice again early
        together alone happily
    """,
    "at": "near behind beside beyond outside inside above by",
    "along": "across past toward around along through into down over",
    "when": "morning evening afternoon night winter spring summer autumn week season day",
    "hour": "morning evening noon night winter spring summer autumn",
    "felt": "cold warm quiet grey bright pale clear long calm soft early",
    "light": "rain snow wind fog mist sunlight smoke dust music silence warmth shade thunder",
    "name": "Anna Tom Maria Peter Emma Simon Helen Martin Lucy David Laura Oscar Alice Daniel",
    "number": "two three four five six seven eight nine ten twelve twenty several many few some",
    "feeling": """
        calm glad tired hungry ready certain proud awake late happy careful grateful silent
        cheerful surprised busy content alone patient
    """,
    "idea": """
        story plan question answer reason lesson habit promise journey dream memory song name
        custom game joke rule idea argument secret word
    """,
    "clever": """
        old good simple strange quiet long short honest curious familiar lovely wise careful
        surprising gentle bold fresh clear pleasant
    """,
    "say": "thought believed knew felt hoped said guessed agreed decided remembered learned",
    "join": "and but so while because although until before after",
    "open": """
        Later Then Sometimes Usually Often Meanwhile Again Finally Once Outside Nearby Today
        Instead Besides Still Now
    """,
}

# One line a sentence. In braces stands a word list's name; the marks stand apart from the words.
_SENTENCES = """
The {made} {thing} stood {at} the {place} .
The {person} {saw} a {thing} {at} the {lying} {place} .
A {person} and a {person} {stayed} {at} the {place} until {hour} .
{name} {saw} the {thing} , {join} the {animal} {stayed} {how} .
In the {when} the {light} came {along} the {place} , and the {person} {stayed} .
{open} , the {person} {saw} the {made} {thing} and {went} {along} the {place} .
{open} , {name} {say} that the {idea} was {clever} .
There was a {lying} {place} {at} the {place} , and {name} {went} there every {when} .
Every {when} the {animal} {went} {how} {along} the {place} .
The {place} was {lying} and the {place} was {lying} , but the {person} {stayed} {how} .
Nobody {saw} the {thing} that {name} had left {at} the {place} .
It was a {felt} {when} , and the {light} lay {along} the {place} .
When the {person} {stayed} , {name} {saw} a {made} {thing} , a {thing} and a {made} {thing} .
{name} was {feeling} , {join} the {person} was {feeling} too .
They {saw} {number} small boats {at} the {place} and {stayed} {how} .
For {number} days the {light} moved {along} the {place} .
The {idea} of the {kind} {person} was {clever} , {join} {name} {say} it was {clever} .
She {saw} the {thing} ; he {saw} the {thing} .
He {say} that a {made} {thing} was worth a {clever} {idea} .
After the {light} , the {place} {at} the {place} was {lying} again .
One {when} a {animal} {went} {along} the {place} , and everyone was {feeling} .
With a {thing} and a {made} {thing} , the {person} {went} {along} the {place} .
We {say} that the {light} would return in the {when} .
The {person} told {name} a {clever} {idea} about the {place} .
{name} asked the {person} about the {idea} , and the answer was {clever} .
From the {place} one could see the {lying} {place} and the {light} {at} it .
Between the {place} and the {place} there was only a {made} {thing} .
At last the {kind} {person} {saw} the {thing} , and {name} was {feeling} .
"""

_MARK = re.compile(r" ([.,;])")
_TOKEN = re.compile(r" ?[A-Za-z]+|[.,;]")
_VOWEL_AFTER_A = re.compile(r"\b([Aa]) (?=[aeiou]|honest)")


def word_lists() -> dict[str, list[str]]:
    """The words a sentence draws from, by the name of their list."""
    return {name: words.split() for name, words in _WORDS.items()}


def paragraphs(seed: int) -> Iterator[list[str]]:
    """Endless paragraphs, each the list of its tokens' texts.

    The first begins without a space, the last is a full stop with an empty line after it.
    """
    # Only random() is drawn: its sequence is the same in every version of Python.
    draw = random.Random(seed).random
    lists = word_lists()
    plans = [_MARK.sub(r"\1", line) for line in _SENTENCES.strip().splitlines()]
    slots = [re.split(r"\{(\w+)\}", line) for line in plans]
    before = -1
    while True:
        tokens: list[str] = []
        for _ in range(3 + int(draw() * 4)):
            which = int(draw() * (len(slots) - 1))
            which += which >= before >= 0
            before = which
            parts = slots[which]
            words = parts.copy()
            used: set[str] = set()
            for at in range(1, len(parts), 2):
                options = lists[parts[at]]
                word = options[int(draw() * len(options))]
                while word in used:
                    word = options[int(draw() * len(options))]
                used.add(word)
                words[at] = word
            sentence = _VOWEL_AFTER_A.sub(r"\1n ", "".join(words))
            if tokens:
                tokens.append(" ")
            first = len(tokens)
            tokens += _TOKEN.findall(sentence)
            if first:
                tokens[first - 1 : first + 1] = [" " + tokens[first]]
        tokens[-1] = ".\n\n"
        yield tokens
