"""What all parties agree on, and the three steps fit, merge and adopt over bytes."""

from pace.protocol import layouts, number_formats, ring, steps, wire
from pace.protocol.adoption import AdoptedModel, Adoption, Kept, Receiver, adopt_all, logit_sets
from pace.protocol.federation import SEED, SEEDS, Federation, check_sealable
from pace.protocol.method import (
    NO_PROMISE,
    ClosedForm,
    Explanation,
    External,
    Method,
    Reading,
    Summable,
    Weight,
    bounded,
    tensor_sentence,
)
from pace.protocol.number_formats import KINDS
from pace.protocol.ring import Ring, Seal, counted, in_ring
from pace.protocol.steps import adopt, fit, merge
from pace.protocol.uploads import Message, Messages, Received, Uploads, Without
