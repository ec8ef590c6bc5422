"""A method that learns from validation labels too is calibrated by models that have not seen them."""

import torch

import pace
from pace import task
from pace.runtimes.files.outcome import on_unseen
from tests.graphs import clients


def test_temperatures_of_pace_full_come_from_rehearsals() -> None:
    graphs = clients(3)
    federation = pace.agree(graphs, "pace-full")
    fitted = [pace.fit(graph, federation) for graph in graphs]
    returns = pace.merge([upload for _, upload in fitted], federation)
    adoption = pace.adopt(graphs[0], fitted[0][0], returns[0], federation)
    assert adoption.rehearsals
    parts = adoption.unseen(graphs[0].val)
    labels = torch.cat([graphs[0].y[held] for _, _, held in parts])
    local = torch.cat([part[held] for part, _, held in parts])
    assert len(labels) > int(graphs[0].val.sum())  # training nodes are held out in their turn
    used = torch.cat([part[held] for _, part, held in parts])
    promised = on_unseen(task.nll, adoption, graphs[0])
    assert promised == {"local": task.nll(local, labels), "adopted": task.nll(used, labels)}
    heat = on_unseen(task.temperature, adoption, graphs[0])
    assert heat["local"] == task.temperature(local, labels)
    plain = pace.agree(graphs, "pace")
    kept, upload = pace.fit(graphs[0], plain)
    uploads = [upload, *(pace.fit(graph, plain)[1] for graph in graphs[1:])]
    alone = pace.adopt(graphs[0], kept, pace.merge(uploads, plain)[0], plain)
    assert not alone.rehearsals
    seen = on_unseen(task.temperature, alone, graphs[0])["adopted"]
    assert seen == task.temperature(alone.logits[graphs[0].val], graphs[0].y[graphs[0].val])
