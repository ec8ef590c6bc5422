import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="PACE, one federation step by step")

with app.setup:
    from dataclasses import replace
    from pathlib import Path

    import marimo as mo
    import torch
    import walkthrough_figures as draw

    from pace import GCN, Adoption, Federation, Graph, Pace, adopt, fit, merge
    from pace.datasets import divide, load
    from pace.gates import mix
    from pace.merging import batches, mean, summed
    from pace.merging.carrier import dense
    from pace.methods import read
    from pace.params import size, subtract
    from pace.protocol import wire
    from pace.task import nll
    from pace.training import train

    # Small products: a second thread only gets in the way.
    torch.set_num_threads(1)


@app.cell(hide_code=True)
def _():
    mo.md("""
    # One federation, step by step

    Six clients hold parts of one graph. They train, upload once, get one return each and decide
    what to do with it. Everything here is computed while you watch, in about ten seconds, on a graph
    that is made from a seed: nothing is downloaded.

    Move a slider, and whatever depends on it is computed again.
    """)
    return


@app.cell
def _():
    rank = mo.ui.slider(1, 16, value=6, label="rank of carriers and corrections", show_value=True)
    mo.hstack([rank], justify="start")
    return (rank,)


@app.cell
def _():
    dataset = load("synthetic")
    graphs = divide(dataset, "louvain", clients=6)
    clients_picture = draw.clients(graphs, dataset.classes)
    return clients_picture, dataset, graphs


@app.cell(hide_code=True)
def _(clients_picture, dataset, graphs):
    _lost = 1 - sum(graph.edges.shape[1] for graph in graphs) / dataset.graph.edges.shape[1]
    mo.vstack(
        [
            mo.md(f"""
    ## 1. Who has what

    A graph of {dataset.graph.nodes:,} nodes with {dataset.graph.features} features in
    {dataset.classes} classes, divided by Louvain communities. The colours are classes, the bar
    below a graph counts them. Each client knows some classes well and has hardly seen others.
    Edges between clients are lost: {_lost:.0%} of all.
    """),
            clients_picture,
        ]
    )
    return


@app.cell
def _(dataset, graphs, rank):
    gcn = GCN((dataset.graph.features, 64, dataset.classes))
    federation = Federation(gcn, Pace(rank=rank.value), seed=104729)
    fitted = [fit(graph, federation) for graph in graphs]  # what to keep, and the upload
    return federation, fitted, gcn


@app.cell
def _(federation, gcn, graphs):
    # The same seed with a smaller budget stops the same training earlier.
    curves: dict[int, list[tuple[float, float]]] = {}
    for epochs in (1, 2, 5, 10, 20, 50, 100):
        recipe = replace(federation.recipe, epochs=epochs)
        curves[epochs] = []
        for _graph in graphs:
            _local = train(_graph, gcn, federation.start, recipe=recipe, seed=federation.seed)
            _logits = gcn(_local, _graph).logits
            _seen, _unseen = (nll(_logits[m], _graph.y[m]) for m in (_graph.train, _graph.val))
            curves[epochs].append((_seen, _unseen))
    training_picture = draw.training(curves)
    return curves, training_picture


@app.cell(hide_code=True)
def _(curves, training_picture):
    mo.vstack(
        [
            mo.md(f"""
    ## 2. Train, each on its own

    Every client trains the same two-layer GCN from the same public start, 100 epochs, and keeps the
    last state: its **Local** model. A fifth of the nodes train. Their NLL ends at
    {max(train for train, _ in curves[100]):.3f} or less; on validation nodes it stays at
    {min(val for _, val in curves[100]):.2f} to {max(val for _, val in curves[100]):.2f}. That gap is
    what the others may help with.
    """),
            training_picture,
        ]
    )
    return


@app.cell
def _(federation, fitted, graphs):
    uploads = [upload for _, upload in fitted]
    messages = [wire.decode(upload).message for upload in uploads]
    returns = merge(uploads, federation)
    adoptions = [
        adopt(graph, kept, returned, federation)
        for graph, (kept, _), returned in zip(graphs, fitted, returns, strict=True)
    ]
    return adoptions, messages, returns, uploads


@app.function
def parts(frame: bytes) -> dict[str, int]:
    """The bytes of a message by what they are."""
    kinds = {"/L": "low-rank factors", "/R": "low-rank factors", "/m": "moments"}
    found = {"low-rank factors": 0, "small, sent whole": 0, "moments": 0}
    for name, value in wire.decode(frame).message.items():
        found[kinds.get(name[-2:], "small, sent whole")] += 4 * value.numel()
    return found | {"framing": len(frame) - sum(found.values())}


@app.cell
def _(federation, returns, uploads):
    whole = size(federation.start)
    sizes_picture = draw.sizes(parts(uploads[0]), parts(returns[0]), whole)
    return sizes_picture, whole


@app.cell(hide_code=True)
def _(sizes_picture, uploads, whole):
    mo.vstack(
        [
            mo.md(f"""
    ## 3. What leaves a site

    The whole model takes {whole:,} bytes, the upload {len(uploads[0]):,}. Nodes, edges, features and
    labels stay where they are. The upload holds the update, Local less the public start, as
    factors; the parameters that are too small to factorise; and one number for each column that a
    layer reads, the **moments**.
    """),
            sizes_picture,
        ]
    )
    return


@app.cell
def _(federation, fitted, rank):
    updates = [subtract(kept.local, federation.start) for kept, _ in fitted]
    values = [torch.linalg.svdvals(update["0.weight"]) for update in updates]
    spectrum_picture = draw.spectrum(values, rank.value)
    return spectrum_picture, values


@app.cell(hide_code=True)
def _(rank, spectrum_picture, values):
    _kept = [float(draw.energy(each)[rank.value - 1]) for each in values]
    mo.vstack(
        [
            mo.md(f"""
    The update of layer 1 has 64 singular values: a few that stand out, then a long flat tail. Rank
    {rank.value} keeps {min(_kept):.0%} to {max(_kept):.0%} of the squared norm. What it drops is lost
    to the others, not to the client: Local stays whole.
    """),
            spectrum_picture,
        ]
    )
    return


@app.cell
def _(messages):
    moments = torch.stack([message["0.weight/m"] for message in messages])
    moments_picture = draw.moments(moments)
    return moments, moments_picture


@app.cell(hide_code=True)
def _(moments, moments_picture):
    _silent = (moments == 0).sum(1).tolist()
    mo.vstack(
        [
            mo.md(f"""
    The moments say how strongly each feature reaches a client's training nodes after propagation.
    The words that are frequent everywhere weigh much everywhere; others belong to some clients.
    {min(_silent)} to {max(_silent)} of the {moments.shape[1]} features do not occur around a client's
    training nodes at all: their moment is exactly zero. That is information about the data, and it
    leaves the site.
    """),
            moments_picture,
        ]
    )
    return


@app.cell
def _(federation, messages, moments):
    received = [read(message, federation.start) for message in messages]
    shared = mean(summed(read(batch, federation.start) for batch in batches(messages)))
    carried = [dense(carrier)["0.weight"].double() for carrier, _ in received]
    rows = torch.stack([*carried, shared["0.weight"]]).flatten(1)
    unit = torch.nn.functional.normalize(rows)
    alike = unit @ unit.t()
    shares = (moments + 1e-12) / (moments + 1e-12).sum(0)
    consensus_picture = draw.consensus(alike, shares, moments.sum(0).argsort(descending=True))
    return alike, consensus_picture


@app.cell(hide_code=True)
def _(alike, consensus_picture):
    _near = alike[:-1, -1]
    _apart = alike[:-1, :-1][~torch.eye(len(_near), dtype=torch.bool)]
    mo.vstack(
        [
            mo.md(f"""
    ## 4. What the server does

    It solves for the update Δ that is nearest to all uploads at once, where nearness in a column
    counts as much as the client's moment there. The moments are diagonal, so this is a weighted mean,
    column by column. On the most frequent features clients have about the same say (pale); a rarer
    one belongs to who sees it (orange), and who never sees it does not dilute it (purple). Two
    uploads have a cosine of {_apart.min():.2f} to {_apart.max():.2f}; Δ has {_near.min():.2f} to
    {_near.max():.2f} with each of them.

    Then each receiver is sent its own way to Δ, again at low rank: P_r(Δ − own carrier).
    """),
            consensus_picture,
        ]
    )
    return


@app.cell
def _(adoptions, graphs):
    alphas_picture = draw.alphas(adoptions, graphs)
    return (alphas_picture,)


@app.cell(hide_code=True)
def _(adoptions, alphas_picture):
    _alphas = [adoption.alpha for adoption in adoptions]
    mo.vstack(
        [
            mo.md(f"""
    ## 5. How much of it to believe

    External = Local + correction. Each receiver mixes the logits of the two, (1 − α) Local + α
    External, and picks the α with the least NLL on its own validation nodes. The curve is convex, so
    there is one answer and no search to tune. Here it is between {min(_alphas):.2f} and
    {max(_alphas):.2f}.
    """),
            alphas_picture,
        ]
    )
    return


@app.cell(hide_code=True)
def _():
    receiver = mo.ui.dropdown(
        {f"client {place + 1}": place for place in range(6)}, "client 1", label="receiver"
    )
    mo.md("""
    ## 6. What changes

    The test nodes of one client. A prediction is right when the true class is ahead: a margin above
    zero. Points above the dotted diagonal gained. Move α and watch nodes cross zero.
    """)
    return (receiver,)


@app.cell(hide_code=True)
def _(adoptions, receiver):
    alpha = mo.ui.slider(
        0,
        1,
        0.01,
        value=round(adoptions[receiver.value].alpha, 2),
        label="α, starts at the chosen one",
        show_value=True,
    )
    mo.hstack([receiver, alpha], justify="start")
    return (alpha,)


@app.cell
def _(adoptions, alpha, dataset, graphs, receiver):
    changes_picture = draw.changes(
        adoptions[receiver.value], graphs[receiver.value], alpha.value, dataset.classes
    )
    mo.as_html(changes_picture)
    return (changes_picture,)


@app.function
def accuracy(adoption: Adoption, graph: Graph, alpha: float) -> float:
    """Percent of the test nodes predicted right at this alpha."""
    predicted = mix((adoption.local, adoption.external), (1 - alpha, alpha)).argmax(1)
    return 100 * float((predicted == graph.y)[graph.test].double().mean())


@app.function
def against_local(adoptions: list[Adoption], graphs: list[Graph]) -> list[tuple[float, float]]:
    """Points of test accuracy against Local, a pair for each client: in full and as adopted."""
    gains = []
    for each, graph in zip(adoptions, graphs, strict=True):
        before, full, adopted = (accuracy(each, graph, alpha) for alpha in (0, 1, each.alpha))
        gains.append((full - before, adopted - before))
    return gains


@app.cell
def _(adoptions, graphs):
    gains = against_local(adoptions, graphs)
    receivers_picture = draw.receivers(gains)
    return gains, receivers_picture


@app.cell(hide_code=True)
def _(gains, receivers_picture):
    _helped = sum(adopted > 0 for _, adopted in gains)
    _harmed = sum(adopted < 0 for _, adopted in gains)
    mo.vstack(
        [
            mo.md(f"""
    ## 7. Helped and harmed

    On test nodes, whose labels no step has read, {_helped} of {len(gains)} receivers gained and
    {_harmed} lost. The chosen α never has a higher NLL than Local on validation nodes. About test
    accuracy it promises nothing. The diamonds show what the correction does in full, at α = 1.
    """),
            receivers_picture,
        ]
    )
    return


@app.cell
def _(rank):
    clashing = load("synthetic-clash")
    foes = divide(clashing, "louvain", clients=6)
    foreign = Federation(
        GCN((clashing.graph.features, 64, clashing.classes)), Pace(rank=rank.value), seed=104729
    )
    sent = [fit(graph, foreign) for graph in foes]
    answers = merge([upload for _, upload in sent], foreign)
    declined = [
        adopt(graph, kept, answer, foreign)
        for graph, (kept, _), answer in zip(foes, sent, answers, strict=True)
    ]
    spared = against_local(declined, foes)
    clash_picture = draw.clash(declined, foes, spared)
    return clash_picture, declined, spared


@app.cell(hide_code=True)
def _(clash_picture, declined):
    _same = all(torch.equal(each.logits, each.local) for each in declined if each.alpha == 0)
    mo.vstack(
        [
            mo.md(f"""
    ## 8. When the others are wrong

    In `synthetic-clash` every community uses the words of the classes in its own way: what one client
    learnt is wrong for the next. Where the curve rises from α = 0 on, the receiver keeps Local:
    {sum(each.alpha == 0 for each in declined)} of {len(declined)} do. Their logits are Local's, bit
    for bit: {_same}. The diamonds show what the correction in full would have cost them.
    """),
            clash_picture,
        ]
    )
    return


@app.cell
def _(
    alphas_picture,
    changes_picture,
    clash_picture,
    clients_picture,
    consensus_picture,
    moments_picture,
    receivers_picture,
    sizes_picture,
    spectrum_picture,
    training_picture,
):
    pictures = {
        "clients": clients_picture,
        "training": training_picture,
        "sizes": sizes_picture,
        "spectrum": spectrum_picture,
        "moments": moments_picture,
        "consensus": consensus_picture,
        "alphas": alphas_picture,
        "changes": changes_picture,
        "receivers": receivers_picture,
        "clash": clash_picture,
    }
    # python examples/walkthrough.py --pictures FOLDER
    if wanted := mo.cli_args().get("pictures"):
        folder = Path(str(wanted))
        folder.mkdir(parents=True, exist_ok=True)
        for name, picture in pictures.items():
            draw.write(picture, folder / f"{name}.png")
    return


@app.cell
def _(adoptions, alike, declined, graphs, returns, spared, uploads, values, whole):
    if mo.app_meta().mode == "script":
        _kept = [float(draw.energy(each)[5]) for each in values]
        _apart = alike[:-1, :-1][~torch.eye(len(graphs), dtype=torch.bool)]
        _near = alike[:-1, -1]
        print(f"bytes: {whole:,} dense, {len(uploads[0]):,} up, {len(returns[0]):,} down")
        print(f"energy kept at rank 6: {min(_kept):.0%} to {max(_kept):.0%}")
        print(
            f"cosines: {_apart.min():.2f} to {_apart.max():.2f} between two uploads, "
            f"{_near.min():.2f} to {_near.max():.2f} with the consensus"
        )
        print("client  nodes     α  Local  External  adopted")
        for _place, (_adoption, _graph) in enumerate(zip(adoptions, graphs, strict=True), 1):
            _scores = [accuracy(_adoption, _graph, a) for a in (0, 1, _adoption.alpha)]
            print(
                f"{_place:6}  {_graph.nodes:5}  {_adoption.alpha:.2f}"
                "  {:5.1f}     {:5.1f}    {:5.1f}".format(*_scores)
            )
        _costs = [-full for full, _ in spared]
        print(
            f"clash: {sum(each.alpha == 0 for each in declined)} of {len(declined)} keep Local; "
            f"in full it would cost them {min(_costs):.0f} to {max(_costs):.0f} points"
        )
    return


if __name__ == "__main__":
    app.run()
