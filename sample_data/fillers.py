"""The fillers that go into the slots of event frames: names, numbers, dates, things."""

import dataclasses
import random
import re
from collections.abc import Callable, Collection


@dataclasses.dataclass(frozen=True)
class Filler:
    """The content of a slot.

    Attributes:
      texts: Equivalent spellings, such as "12 percent" and "12%".
      kind: The kind of fact: "entity", "number" or "date".
      value: The size of a number; 0 for other kinds.
    """

    texts: tuple[str, ...]
    kind: str = "entity"
    value: float = 0


def _words(text: str) -> list[str]:
    return text.split()


def _phrases(text: str) -> list[str]:
    return [phrase.strip() for phrase in text.split(",")]


# All names are invented, except those of cities.
_BRANDS = _words(
    "Norvale Brightmoor Kestrin Tellaro Vantisse Pellworth Quillon Sarrow Dunmere "
    "Castellane Ferndahl Halvorn Merribeck Lowick Tarrantine Bluepine Stonefell "
    "Redharrow Calverton Drummoch Fenwhistle Gantry Hollowell Jessamine Kilbrook "
    "Larkhurst Marrowby Nettlefold Pinecroft Ravensby Silverlode Thornquist Wexcombe "
    "Zephyrine Copperline Maplewick Greycliff Foxglen Harborview Sunmarch"
)
_TRADES = _words(
    "Foods Motors Energy Systems Textiles Logistics Electronics Chemicals Steel Media "
    "Telecom Robotics Furniture Software Shipping Plastics Tools Instruments Retail "
    "Semiconductors Cement Paper Dairy Glass"
)
_FIRST_NAMES = _words(
    "Marta Ilya Joon Priya Tomas Leila Sven Amara Bruno Chidi Daria Emil Farah Goran "
    "Hana Idris Jolanta Kofi Lucia Milan Nadia Oskar Petra Quentin Rosa Samir Tessa "
    "Ulrich Vera Wanda Yusuf Zora Anders Bianca Caleb Dolores Edgar Fiona Gustav Helga"
)
_LAST_NAMES = _words(
    "Lindholt Okafarin Varga Brennick Castellani Dufresne Eriksund Fontaine Grabowy "
    "Haldane Ibarren Jankovar Kowalen Lemaitre Mbekwe Norling Ostrander Pellegrin "
    "Quispel Rahmani Sorvino Takemoto Uddgren Valtonen Wexler Yarrow Zielinsk Abernath "
    "Bellweather Corrigan Delacort Engstrand Farrowby Giacomel Holloway Kessling "
    "Marchetti Nakagawa Petrosyan Rosenthal"
)
_CITIES = _phrases(
    "Lisbon, Denver, Oslo, Turin, Nagoya, Cardiff, Tampa, Lyon, Montreal, Durban, "
    "Krakow, Perth, Santiago, Helsinki, Boston, Geneva, Osaka, Dublin, Phoenix, Quito, "
    "Hamburg, Nairobi, Seville, Calgary, Antwerp, Bristol, Detroit, Busan, Malmo, "
    "Valencia, Memphis, Zagreb, Leeds, Manila, Porto, Rotterdam"
)
_LANDS = _words(
    "Valdoria Norland Estmark Corvania Talmere Brovia Lestrania Kandoor Sarvonia "
    "Pelagia Morvenia Zubrinia Halmark Fenland Dravonia Jorvania Tiburia Wesmark"
)
_MASCOTS = _words(
    "Herons Otters Comets Foxes Badgers Larks Anvils Lanterns Harriers Drifters "
    "Millers Sentinels Pipers Monarchs Wanderers Corsairs"
)
_SCHOOLS = _words(
    "Brackenfield Merrow Calder Dunwick Fairholm Greystead Hartwell Kingsmere Langdale "
    "Northam Penhallow Riversend Stanmoor Thornbury Westerly Whitcombe"
)
_MONTHS = _words("January March April May June July August September October November")
_DAYS = _words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
_SMALL = _words("two three four five six seven nine")
_ORDINALS = _words("first second third fourth")
_TITLES = _phrases(
    "The Glass Orchard, Winter Harbor, A Map of Silence, The Last Beekeeper, Paper "
    "Moons, Salt and Thunder, The Quiet Engine, Seven Lamps, Beyond the Weir, The "
    "Crooked Mile, Northbound, A Season of Dust, The Clockmaker, Blue Lantern Street, "
    "Hollow Crowns, The Ferryman, Ashes in Spring, The Painted Door, Broken Compass, "
    "Midnight Bakery, The Long Furrow, Letters to Nobody"
)

_THINGS = {
    "product": "electric bicycles, coffee machines, baby strollers, space heaters, "
    "lawn mowers, hair dryers, dishwashers, camping stoves, "
    "vacuum cleaners, treadmills",
    "part": "switches, screws, springs, handles, hinges, cables, seals, bolts",
    "matter": "a battery patent, stolen software, an unpaid invoice, trade secrets, "
    "copied furniture designs, a broken lease, a missing shipment, false advertising",
    "vehicle": "trams, electric buses, ferries, snowplows, fire engines, metro cars, "
    "garbage trucks, ambulances, street sweepers",
    "good": "wheat, copper, coffee, natural gas, cotton, sugar, timber, rice, "
    "rye, cocoa, barley, zinc, palm oil, tea",
    "crop": "wheat, barley, rye, rice, cotton, corn, sugar cane, flax, millet",
    "cause": "a report on stocks, a new trade rule, a storm warning, a port strike, "
    "a pipeline fire, the collapse of talks, a government auction, a currency crisis",
    "crime": "bank fraud, tax evasion, forgery, smuggling, bribery, perjury, "
    "money laundering, burglary, blackmail",
    "document": "loan agreement, lease, merger contract, delivery note, tax return, "
    "insurance policy, sales receipt, safety certificate",
    "project": "library, stadium, swimming pool, concert hall, bus station, "
    "market hall, fire station, sports center, city park, hospital wing",
    "topic": "banning plastic bags, raising the retirement age, taxing sugary drinks, "
    "limiting night flights, reforming the police, protecting old forests, "
    "legalizing online betting, shortening school holidays, capping rents",
    "department": "finance, transport, health, education, defense, justice, farming, "
    "energy, foreign, housing",
    "affair": "a spending scandal, a leaked memo, a housing dispute, a delayed bridge, "
    "a failed audit, a row over pensions, a ferry accident, forged diplomas",
    "pact": "fishing, trade, border, water, customs, mining, railway, security",
    "agency": "the consumer agency, the data protection office, "
    "the aviation authority, the competition commission, the banking regulator, "
    "the health inspectorate",
    "offense": "misleading customers, hiding fees, late safety reports, selling user "
    "data, ignoring complaints, dumping waste, fixing prices, false labels",
    "competition": "the cup final, the league opener, a friendly match, the semifinal, "
    "a playoff game, the derby, the qualifying round",
    "injury": "knee, ankle, shoulder, wrist, back, hip, thigh, foot",
    "round": "quarterfinals, semifinals, final, third round, second round",
    "habit": "daily coffee, red meat, short sleep, salted fish, green tea, shift work, "
    "brown bread, long walks, olive oil, loud music, soft drinks",
    "illness": "diabetes, stroke, asthma, migraine, heart disease, arthritis, "
    "depression, skin cancer, gout, hay fever",
    "animal": "frog, beetle, orchid, moth, lizard, snail, bat, spider, fern, crab",
    "habitat": "forests, mountains, wetlands, caves, highlands, deserts, lagoons",
    "purpose": "weather, navigation, television, research, mapping, radar",
    "mishap": "a gas leak, a bus crash, a hotel fire, a chemical spill, a food "
    "poisoning outbreak, a ferry collision, a roof collapse, a warehouse explosion",
    "incident": "a landslide, a signal failure, a bridge inspection, a power cut, "
    "a flood, a track fire, a derailment, an earthquake",
    "structure": "tunnel, bridge, airport terminal, opera house, subway line, dam, "
    "tram depot, football stadium, harbor wall",
    "museum": "Museum of Modern Art, Portrait Gallery, National Collection, "
    "Harbor Museum, Textile Institute, Maritime House",
    "fee": "parking fees, bus fares, water charges, property taxes, library fees, "
    "ferry tolls, waste charges, swimming pool tickets",
    "talks": "climate talks, trade negotiations, a budget meeting, a peace conference, "
    "a banking summit, a fisheries congress",
    "chemical": "nitrate, lead, mercury, phosphate, arsenic, chlorine, sulfate",
    "river": "Alder, Brennon, Calla, Dorwen, Fennick, Grell, Hythe, Jarrow, Lunde, "
    "Mirren, Nessel, Tolka",
    "storm": "Tamsin, Borel, Quillan, Vesper, Osric, Delphine, Kasimir, Lorna, "
    "Magnus, Yvette",
    "site": "Cape Merrow, Tansy Island, Port Sable, Gull Point, Fort Linden, "
    "Cedar Flats",
}

Draw = Callable[[random.Random], Filler]


def _name(*parts: list[str]) -> Draw:
    """Returns a function that draws names with a word from each part."""
    return lambda rng: Filler((" ".join(rng.choice(part) for part in parts),))


def _number(numbers: Collection[int], *texts: str, scale: float = 1) -> Draw:
    """Returns a function that draws numbers, with the formats `texts`."""
    # Frames write "a" before numbers; these would need "an".
    choices = [n for n in numbers if not re.match(r"8|11$|18$", str(n))]

    def draw(rng: random.Random) -> Filler:
        value = rng.choice(choices) * scale
        shown = f"{value:,.1f}" if scale < 1 else f"{value:,}"
        return Filler(tuple(text.format(shown) for text in texts), "number", value)

    return draw


def _listed(kind: str, *words: str) -> Draw:
    """Returns a function that draws from a list, in which numbers double in value."""
    return lambda rng: _at(kind, words, rng.randrange(len(words)))


def _at(kind: str, words: tuple[str, ...], index: int) -> Filler:
    return Filler((words[index],), kind, 2.0**index if kind == "number" else 0)


def _score(rng: random.Random) -> Filler:
    low = rng.randrange(5)
    high = low + rng.randrange(1, 4)
    return Filler((f"{high}-{low}", f"{high}:{low}"), "number", 10.0**high + low)


_POOLS: dict[str, Draw] = {
    "company": _name(_BRANDS, _TRADES),
    "retailer": _name(
        _BRANDS, _words("Foods Furniture Shoes Toys Books Garden Fashion")
    ),
    "aerospace": _name(_BRANDS, _words("Aerospace Systems Space Telecom Robotics")),
    "maker": _name(_BRANDS, _words("Appliances Tools Electronics Industries Home")),
    "builder": _name(_BRANDS, _words("Vehicles Mobility Transport Motors Works")),
    "startup": _name(_BRANDS, _words("Labs Software Robotics Data Games Sensors")),
    "airline": _name(_BRANDS, _words("Air Airlines Airways Jet")),
    "pharma": _name(_BRANDS, _words("Pharma Biotech Therapeutics Medicines")),
    "fund": _name(_BRANDS, _words("Capital Ventures Partners Holdings")),
    "auditor": _name(_LAST_NAMES, _words("Associates Partners Auditing")),
    "person": _name(_FIRST_NAMES, _LAST_NAMES),
    "analyst": _name(
        _words("analyst spokesperson economist researcher reporter consultant"),
        _FIRST_NAMES,
        _LAST_NAMES,
    ),
    "city": _name(_CITIES),
    "land": _name(_LANDS),
    "team": _name(["the"], _CITIES, _MASCOTS),
    "university": _name(_SCHOOLS, ["University"]),
    "title": _name(_TITLES),
    "prize": _name(_LAST_NAMES),
    "weekday": _listed("date", *_DAYS),
    "month": _listed("date", *_MONTHS),
    "ordinal": _listed("date", *_ORDINALS),
    "small": _listed("number", *_SMALL),
    "score": _score,
    "percent": _number(range(3, 60), "{} percent", "{}%"),
    "raise": _number(range(2, 20), "{} percent", "{}%"),
    "rate": _number(range(12, 99), "{} percent", "{}%", scale=0.1),
    "millions": _number(range(2, 98), "${} million", "{} million dollars"),
    "billions": _number(range(2, 40), "${} billion", "{} billion dollars"),
    "seconds": _number(range(2, 60), "{}"),
    "dozens": _number(range(12, 80), "{}"),
    "speeds": _number(range(90, 240, 5), "{}"),
    "hundreds": _number(range(120, 990, 10), "{}"),
    "thousands": _number(range(1200, 60000, 100), "{}"),
} | {name: _listed("entity", *_phrases(text)) for name, text in _THINGS.items()}

# Words that different names may share.
_SHARED = frozenset({"The", "A", "University"})


def _clashes(one: Filler, other: Filler) -> bool:
    """Returns whether a reader could confuse two fillers."""
    if "number" in (one.kind, other.kind):
        if one.kind != other.kind:
            return False
        low, high = sorted((one.value, other.value))
        return high < 1.3 * low
    names = [
        set(re.findall(r"[A-Za-z]+", filler.texts[0]))
        - _SHARED
        - {"a", "an", "the", "of", "in"}
        for filler in (one, other)
    ]
    return bool(names[0] & names[1])


def draw(pool: str, taken: Collection[Filler], rng: random.Random) -> Filler:
    """Draws a filler that cannot be confused with those in use.

    Args:
      pool: Name of the pool.
      taken: The fillers of the sentence, and of the one that it was changed from.
      rng: Random generator.

    Returns:
      A filler that shares no name with those in `taken`, and has no similar number.

    Raises:
      ValueError: The pool has no such filler.
    """
    for _ in range(1000):
        filler = _POOLS[pool](rng)
        if not any(_clashes(filler, other) for other in taken):
            return filler
    raise ValueError(f"pool {pool!r} has no filler that differs enough from {taken!r}")
