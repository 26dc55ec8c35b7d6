"""Words and phrases that kcheck does not use, each with the plain American English for it.

Extend the table whenever a reader stumbles. A pattern is a regular expression that ignores case. It must not match
plain sentences.
"""

from __future__ import annotations

import re

_TABLE = (
    # What was or was not written, told, known.
    (r"\bnobody\b", "uninitialized; never written; unknown"),
    (r"\bnothing between\b", "no synchronization between them"),
    (r"\bwhat lies\b", "the memory at; the value in"),
    (r"\bwhat it is (told|given|asked)", "its arguments; its options"),
    (r"\b(is|are|was|were|be|being) told\b", "is reported; is shown"),
    (r"\btells? (?!(apart|the difference|you|which|whether|git|users)\b)", "report; show; say"),
    (r"\b(is|are) handed\b", "gets; is passed"),
    (r"\bnot known here\b", "unknown; not found"),
    (r"\btaken for\b|\btakes? (it|them|this) for\b", "treated as; assumed"),
    (r"\bfor granted\b", "hard-coded; assumed"),
    # How much, how often, how far.
    (r"\bso (often|many)\b(?! as\b)", "at most; that many; how often"),
    (r"\bunless (said|told|written) ?(otherwise)?", "default:"),
    (r"\bleft out:", "default:"),
    (r"\bfurther (lines|details|cases|than)\b", "other; more"),
    (r"\braces more\b|\b(elements|cases|lines) more\b", "more races"),
    (r"\bin parts\b", "partly; one part at a time"),
    (r"\bno more than\b", "at most"),
    (r"\ba second's\b|\bof a second\b(?! [a-z]+ )", "say how many seconds"),
    # Negated nouns in place of negated verbs.
    (r"\bno multiple\b", "not a multiple; not aligned to"),
    (r"(?<!there )\b(is|are|was|were) (?-i:none)\b(?! of|:)", "there is no ...; not ..."),
    (r"\b(is|are) none of\b(?! (these|them|the))", "is not one of; is not"),
    (r"(?<!there )\bis no(?! longer| more\b|t\b| such| need| reason| room| way)\b", "is not a"),
    (r"(?<!there )\bare no(?! longer| more\b|t\b| such)\b", "are not"),
    (r"\b(has|have|had) no end\b", "does not end"),
    (r"\bis no more\b|\bare no more\b", "is gone; no longer exists"),
    (r"\bwhich there is not\b|\bthat there is not\b", "that does not exist"),
    (r"\bmay not be had\b|\bcannot be had\b|\bto be had\b", "is not available"),
    (r"\bnot there\b", "missing; does not exist"),
    (r"\bof none\b|\bfor none\b|\bby none\b|\bto none\b", "of no ...; does not"),
    (r"\bfor want of\b", "because there is no"),
    (r"\bany ?more\b", "no longer"),
    # Words of our own.
    (r"(?<![`.])\bmend(s|ed|ing)?\b(?![:`=])", "fix"),
    (r"\bfaults? of kcheck\b|\bkcheck's fault\b", "internal error"),
    (r"\bhouse('s)?\b", "the project's"),
    (r"\b(hold|holds|held|holding)(?: \w+){0,3} against\b", "compare with"),
    (r"\bstrictly as\b|\bas ever\b", "as usual"),
    (r"\bmet by luck\b|\bby luck\b", "by chance"),
    (r"\b(a|the|its|their) like\b|\bthe like\b|\bmore like (this|it|these)\b", "similar"),
    (r"\b(fails?|fail|failed|ends?|look) (so|alike|thus)\b", "fails the same way"),
    (r"\bthereof\b|\bwhereof\b|\bwherein\b|\bwhereby\b", "of it; where"),
    (r"\bhangs? (on|upon)\b", "depends on"),
    (r"\bpart(s|ed|ing)? (its|their|the) rounds\b", "iterations of the loop"),
    (r"\bcr(y|ies|ied) wolf\b", "false alarm"),
    (r"\bkept from run to run\b|\bfrom run to run\b", "cached between runs"),
    (r"\bin place of\b", "instead of"),
    (r"\b\w+ of (its|their|your|our|my|his|her|one's) own\b", "its own ..., before the noun"),
    (r"\b(is|are|was|were) (wanted|meant for)\b", "needed; required"),
    (r"\bwants? (one|an?|the|two|\d)\b", "needs; requires"),
    (r"\bwhatever [A-Z]\b(?!\w)", "for every M"),
    (r"\bcome to (its|their|the|a|this|that|every|one)\b|\bcomes? to (its|the|a|this)\b|\bcame to\b", "reach"),
    (r"\bwith(out)? its? like\b", "similar"),
    (r"\bfor ever\b", "forever"),
    (r"\binside of\b|\boutside of\b", "inside; outside"),
    (r"\bwhat it (is|was|has) (about|for)\b", "its subject"),
    (r"\bat hand\b", "available"),
    (r"\bas (it|they) stands?\b", "unchanged; as is"),
    (r"\bstands? (in|at|on|above|below|beside|between|before|ready|open|next)\b", "is in; is at; comes before"),
    (r"\bwhat matters\b", "the conditions that matter"),
    (r"\bsay(s|ing)? '", "write; set"),
    (r"\bis said\b|\bas said\b|\bwas said\b|\bare said\b", "is stated; see above"),
    (r"\bit is looked\b", "we look for; kcheck checks"),
    (r"\bthe very\b|\bthat very\b|\bthis very\b|\bits very\b", "the same; exactly the"),
    (r"\bwithin reach\b", "available"),
    (r"\bmade of it\b", "did with it"),
    (r"\bof old\b|\banew\b|\bafresh\b|\bforthwith\b|\bbeforehand\b", "earlier; again; in advance"),
    (r"\bone and the same\b", "the same"),
    (r"\bonce more\b", "again"),
    (r"\byet (be|to)\b(?! (implement|support))", "still"),
    (r"\bshall\b|\bought\b|\bneed not\b|\bmust needs\b", "must; does not have to"),
    (r"\bby a hair\b|\bto the letter\b", "slightly; exactly"),
    (r"\bas well as any\b", "as"),
    (r"\bthat are asked for\b|\b(is|are|was|were) asked for\b", "requested; required"),
    (r"\btakes? the place\b|\btook the place\b|\btaken the place\b", "replaces"),
    (r"\bfits? exactly one\b", "matches exactly one"),
    (
        r"\b(specialis|serialis|synchronis|initialis|normalis|quantis|optimis(?!tic)|recognis|organis|summaris|minimis|maximis|"
        r"vectoris|generalis|randomis|parallelis|equalis|finalis|realis|visualis|analys(?!is\b|es\b|t))\w*",
        "-ize, -yze",
    ),
    (
        r"\b(behaviour|colour|honour|favour|neighbour|labelled|modelled|modelling|cancelled|signalled|centre|licence|"
        r"travell|judgement|whilst|amongst|learnt|spelt|artefact)\w*",
        "American spelling",
    ),
    # Passive and inverted manners.
    (r"\b(is|are) to be (run|read|made|had|seen|launched|found|kept)\b", "must be; will be"),
    (r"\bwhat (is|was|are) (meant|named|there|asked|wanted|kept)\b", "the intended ...; the named ..."),
    (r"\bthose that are\b|\bthose who\b|\bsuch as are\b", "the ... ones"),
    (r"\bbut for\b", "except"),
    (r"\bsave for\b|\bsave that\b", "except"),
    (r"\bupon\b|\bwhence\b|\bthence\b", "on; from where"),
    (r"\bat the latest\b|\bat the earliest\b", "by; from"),
    (r"\bin (the )?course of\b", "during"),
    (r"\bthat is how\b|\bwhich is how\b", "rephrase: '... so that'"),
    (r"\bof (theirs|ours|yours)\b", "their, our, your, before the noun"),
    (r"\b(is|are) (not )?waited for\b", "kcheck waits for ..."),
    (r"\b(is|are|be) held to\b", "must have; is compared with"),
    (r"\bmakes? of (it|them|this|one|an?|the)\b", "the result of; computes from"),
    # Word for word from another language.
    (r"\balso if\b", "even if"),
    (r"\bexists? already\b", "already exists"),
    (r"\bexclude each other\b", "cannot be combined"),
    (r"\bthan there (is|are)\b", "than is available"),
    (r"\bwithout end\b", "endlessly; an endless stream of"),
    (r"\bin turns\b", "alternately; interleaved; one after another"),
    (r"\bon the wall\b|\bby the clock\b", "wall-clock time"),
    (r"\bfrom (empty|full|cold|warm) caches\b", "with empty caches"),
    (r"\bbehind the (decimal |binary )?point\b", "fractional bits; fractional digits"),
    (r"\bfloors? of imports\b|\bdown the floors\b", "layers"),
    (r"\btravels?\b", "is sent; is copied"),
    (r", the spec (declares|allows)\b", ", but the spec declares"),
    (r"\b(for|as) machines\b", "for programs"),
    (r"\b(functions?|expressions?) over\b", "a function of arrays; a function that takes and returns arrays"),
    (r"\b(sets?|setting) another\b", "sets a different one"),
    (r"\bby nature\b", "always"),
    (r"\bwhat (waits|waited|is waiting)\b", "the waiting calls; the threads that wait"),
    (r"\b(goes|go|went) on after\b", "continues after; resumes"),
    (
        r"\b(does|do|did) not fit (?!(in|into|on|within|inside|here|below|beside|is|are)\b)(\w|\{)",
        "does not match the spec; does not fit in 32 bits",
    ),
    (r"\ban error of (memcheck|racecheck|initcheck|synccheck)\b", "initcheck reports an error"),
    (r"\blowered whole\b", "completely lowered"),
    (r"\b(as|what) (messages|menus) (call|name)s? (it|them)\b", "its name in messages; its title in menus"),
    (r"\bless one\b", "minus 1"),
    (r"\bnothing of the user's\b", "no user code"),
    (r"\bput aside\b", "suspended"),
    (r"\bgo(es)? round\b", "starts another iteration"),
    (r"\bno look at\b", "does not check; does not read"),
    (r"\bon (its|their) account\b", "because of it"),
    (r"\bcomes? to an end\b", "ends; finishes"),
    (r"\d %(?= (of|to|for|by|from)\b|[),.;:]| \|)", "no space before the percent sign"),
    (r"\bother (bits|cases|inputs|values|versions|options|strides) than\b", "different ... than"),
    (r"\b(the|its|a|their) begin\b", "the start; the entry; the beginning"),
    (r"\bwhom\b", "which lanes; which threads"),
    (r"\bwhat has to\b|\b(has|have) to hold\b", "the conditions; must be true"),
    (r"\brests? on\b", "requires; depends on"),
    (r"\btold (at|by|for|of)\b", "reported at; known from"),
    (r"\bso much (in|more|for)\b", "a first value and a step"),
    (r"\bspeaks? for\b", "applies to"),
    (r"\b(give[ns]?|gave|giving) back\b", "free; release; return"),
    (r"\bbehind (the|its) (barrier|loop|entry|last|end|branch|block)\b", "after; past"),
)

BANNED: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), plain) for pattern, plain in _TABLE
)
"""Each pattern with what to write instead."""


def odd_words(text: str) -> list[tuple[str, str]]:
    """Each banned phrase in a text, as it stands there, with what to write instead."""
    prose = re.sub(r"\{[^{}]*\}", "{}", text)  # not the code in the placeholders of an f-string
    return [(match[0], plain) for pattern, plain in BANNED for match in pattern.finditer(prose)]
