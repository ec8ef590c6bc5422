"""Runtime 3: organisations join over a network. The round and its nodes, whatever the engine."""

from pace.runtimes.network import exchange
from pace.runtimes.network.exchange import UPLOAD, Reply, Words, known_words, log, pass_on
from pace.runtimes.network.node import Node, respond
from pace.runtimes.network.progress import Event, Progress, parse_event
from pace.runtimes.network.round import RoundReport, Settings, parse_nodes, play_round
