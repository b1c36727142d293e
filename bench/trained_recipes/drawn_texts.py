"""Short texts drawn at random, like those of well-known datasets: messages of which few are spam, news of four topics.

Some say little about their class, and some share words with another one, so that none is learned from a few words.
"""

import random

Rows = list[tuple[str, str]]

SPAM_SHARE = 0.13  # as in the SMS Spam Collection

_NAMES = ("mum", "dad", "Sam", "Priya", "Jo", "Anna", "Ben", "Lena", "Omar", "Kate", "bro", "babe")
_WHEN = ("tonight", "2moro", "at 8", "on friday", "after work", "this weekend", "in 10 mins", "later", "at lunch")
_PLACES = ("the gym", "town", "ur place", "the library", "uni", "work", "the station", "the pub", "home", "the bank")
_THINGS = ("the tickets", "ur notes", "my phone", "the keys", "that film", "a voucher", "the bill", "some cash")
_PRIZES = ("a £1000 cash prize", "a free camera phone", "2 concert tickets", "a holiday for 2", "£500 of vouchers")
_OFFERS = ("unlimited texts", "half price line rental", "the latest ringtones", "a loan of up to £5000", "free minutes")
_SMALL_TALK = ("", "", "lol", "ok?", ":)", "x", "thx", "haha", "call me", "dont be late", "txt me back", "miss u")
_SMALL_PRINT = ("", "T&Cs apply", "18+", "150p/msg", "reply STOP to end", "valid 12hrs only", "call now!", "text back")
_HAM = (
    "are we still on for {place} {when}",
    "hey {name}, can u bring {thing} {when}",
    "sorry i cant talk now, will call u {when}",
    "just got to {place}, where r u",
    "{name} says hi, we r going to {place} {when}",
    "did u win the game {when}? {name} said it was great",
    "i lost {thing} somewhere near {place}",
    "please call {name} on {number} {when}, its urgent",
    "ur free {when} right? come to {place}",
    "can u lend me £{small} for {thing}, will pay u back {when}",
    "u have won the bet, i owe u a drink {when}",
    "no reply from {name} yet, i will text again {when}",
    "my new number is {number}, {name} has it too",
    "the offer on {thing} ends {when}, shall we go to {place}",
)
_SPAM = (
    "congratulations! you have won {prize}. call {number} {when}",
    "urgent: your number was drawn for {prize}, claim on {number}",
    "get {offer} today, text YES to {short}",
    "free entry to win {prize}, send WIN to {short}",
    "your account gets {offer} {when}, call {number} to activate",
    "hi, its {name}, i tried to call u about {offer}, ring me on {number}",
    "final notice: {prize} is waiting for you, reply CLAIM",
    "someone near {place} likes you, text {short} to find out who",
    "u r free {when}? chat with {name} on {number}",
    "dear customer, we owe you £{small}, call {number} {when}",
)


def messages(count: int, seed: int) -> Rows:
    """Messages like those of the SMS Spam Collection: 13 % of them are spam."""
    draw = random.Random(seed)
    spam = round(count * SPAM_SHARE)
    rows = [(_message(draw, is_spam=at < spam), "spam" if at < spam else "ham") for at in range(count)]
    draw.shuffle(rows)
    return rows


def _message(draw: random.Random, *, is_spam: bool) -> str:
    text = draw.choice(_SPAM if is_spam else _HAM).format(
        name=draw.choice(_NAMES),
        when=draw.choice(_WHEN),
        place=draw.choice(_PLACES),
        thing=draw.choice(_THINGS),
        prize=draw.choice(_PRIZES),
        offer=draw.choice(_OFFERS),
        number=f"0{draw.randrange(7 * 10**9, 9 * 10**9)}",
        short=draw.randrange(80000, 89999),
        small=draw.randrange(5, 95),
    )
    text = f"{text} {draw.choice(_SMALL_PRINT if is_spam and draw.random() < 0.6 else _SMALL_TALK)}".rstrip()
    return text.upper() if draw.random() < 0.05 else text.capitalize() if draw.random() < 0.5 else text


_TOPICS = {  # who it is about, and what happens
    "world": (
        "minister|rebels|the president|peace talks|voters|UN envoy|troops|protesters|the embassy|parliament",
        "sign a ceasefire|accuse neighbours of interference|call for an election|reject the treaty|hold crisis talks|"
        "release hostages|close the border|mourn victims of the blast",
    ),
    "sports": (
        "striker|the champions|coach|sprinter|the league|rookie pitcher|tennis star|the national team|captain|the club",
        "win in extra time|sign a new contract|break the record|miss the final through injury|lose the opening match|"
        "reach the semi-finals|appeal against the ban|lead at half-time",
    ),
    "business": (
        "retailer|oil prices|shares|the airline|regulators|the central bank|carmaker|chip maker|investors|the bank",
        "report a quarterly loss|cut jobs|rise on strong demand|raise the forecast|file for bankruptcy|"
        "agree to a takeover|warn of weak sales|settle the lawsuit",
    ),
    "technology": (
        "browser|researchers|the space probe|search engine|chip maker|hackers|phone maker|the telescope|software giant",
        "patch a security flaw|unveil a faster processor|find signs of water|release a test version|trace a virus|"
        "delay the launch|map the genome|sue over patents",
    ),
}
_SHARED = "react to the news|face new questions|win support|lose ground|make a new start|delay a decision|sign a deal"
_WHERE = "in Geneva|in Beijing|in London|in Athens|in Seoul|in Nairobi|in Texas|in Brazil|overseas|at home"
_DAYS = "on Monday|on Tuesday|on Friday|late on Sunday|for a second day|this week|after a long wait|, sources say"


def news(count: int, seed: int) -> Rows:
    """Headlines like those of AG News, as many of each of four topics; in a third, one half could be of any topic."""
    draw = random.Random(seed)
    names = list(_TOPICS)
    rows = [(_headline(draw, names[at % len(names)]), names[at % len(names)]) for at in range(count)]
    draw.shuffle(rows)
    return rows


def _headline(draw: random.Random, topic: str) -> str:
    who, what = _TOPICS[topic]
    kind = draw.random()
    if kind < 1 / 6:
        what = _SHARED
    elif kind < 1 / 3:
        who = draw.choice(list(_TOPICS.values()))[0]
    return (
        " ".join(draw.choice(words.split("|")) for words in (who, what, _WHERE, _DAYS)).replace(" ,", ",").capitalize()
    )
