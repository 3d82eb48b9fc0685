"""``dgn info``: the settings and size of an experiment, without its data."""

from typing import TYPE_CHECKING, Annotated

import typer

from dgn.cli.display import echo, make_console, print_table

if TYPE_CHECKING:
    from dgn.nn import DGN, Ensemble
    from dgn.training.experiment import Experiment
    from dgn.training.tables import Table

UNKNOWN = 1.0  # placeholder of the scalers' delta, which is computed from the training graphs


def command(
    experiment: Annotated[
        str | None, typer.Argument(help="A name or a YAML file; without one, all names are listed.")
    ] = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a setting: network.hidden=90.")
    ] = None,
) -> None:
    """Show the network of an experiment, its size, its data and the paper's score."""
    from dgn.training.experiment import load_experiment

    console = make_console()
    if experiment is None:
        print_table(console, list_experiments())
        echo(console, "dgn info EXPERIMENT shows one, dgn train EXPERIMENT trains it")
        return
    config = load_experiment(experiment, change or ())
    print_table(console, describe(config))
    echo(console, str(_network(config)))
    if set(config.network.scalers) != {"identity"}:
        echo(
            console,
            f"delta is {UNKNOWN:g} here as the graphs are not loaded; training uses the mean of log(degree + 1) over "
            "the nodes of the training graphs",
        )


def list_experiments() -> "Table":
    """All built-in experiments, with the paper's scores."""
    from dgn.training.experiment import experiment_names, load_experiment
    from dgn.training.scores import main_metric, published_score
    from dgn.training.tables import Table

    experiments = [load_experiment(name) for name in experiment_names()]
    rows = tuple((config.name, main_metric(config), published_score(config)) for config in experiments)
    return Table("", ("experiment", "metric", "paper"), rows)


def describe(experiment: "Experiment") -> "Table":
    """The settings of an experiment, in two columns."""
    from dgn.training.build import count_parameters
    from dgn.training.scores import main_metric, published_score
    from dgn.training.tables import Table

    network, training, published = experiment.network, experiment.training, experiment.published
    count = f"{count_parameters(_network(experiment)):,}"
    if published is not None and published.parameters is not None:
        count += f" (paper: {published.parameters:,})"
    rows = {
        "data": _data(experiment),
        "aggregators": ", ".join(network.aggregators),
        "scalers": ", ".join(network.scalers),
        "network": _layers(experiment),
        "readout": network.readout,
        "parameters": count,
        "training": f"batches of {training.batch_size}, at most {training.epochs} epochs, learning rate "
        f"{training.learning_rate:g}, {training.schedule}, weight decay {training.weight_decay:g}",
        "seeds": ", ".join(map(str, training.seeds)),
    }
    if published is not None:
        rows["paper"] = f"test {main_metric(experiment)} {published_score(experiment)}"
    if published is not None and published.assumed:
        rows["not published, our choice"] = ", ".join(published.assumed)
    if published is not None and published.changed:
        rows["not as published"] = ", ".join(published.changed)
    return Table(experiment.name, ("", ""), tuple(rows.items()))


def _data(experiment: "Experiment") -> str:
    from dgn.data.benchmark import TASKS, load_benchmark

    data, directions = experiment.data, experiment.num_directions
    task = load_benchmark("own", data.path) if data.dataset == "own" else TASKS[data.dataset]
    field = "no field" if not directions else f"{directions} direction{'s' * (directions > 1)}"
    precomputed = "precomputed" if data.dataset == "own" else "coordinates"
    origin = precomputed if task.coordinates else "eigenvectors"
    parts = [f"{experiment.data.dataset}: {task.objective}", f"{field}{f' ({origin})' if directions else ''}"]
    parts += [f"random walks of up to {data.rwse_steps} steps"] if data.rwse_steps else []
    parts += [f"rings of {', '.join(map(str, data.ring_sizes))}"] if data.ring_sizes else []
    return ", ".join(parts)


def _layers(experiment: "Experiment") -> str:
    network = experiment.network
    parts = [f"{network.message}, {network.num_layers} layers of width {network.hidden}"]
    parts = [f"ensemble of {network.ensemble_size}, each {parts[0]}"] if network.ensemble_size > 1 else parts
    parts += [f"the last of width {network.last}"] if network.last else []
    parts += [f"{network.towers} towers"] if network.towers > 1 else []
    parts += [f"edge features of width {network.edge_dim}"] if network.edge_dim else []
    parts += (
        [f"{network.num_eigenvector_features} eigenvector(s) as node features"]
        if network.num_eigenvector_features
        else []
    )
    parts += ["a virtual node"] if network.virtual_node else []
    return ", ".join(parts)


def _network(experiment: "Experiment") -> "DGN | Ensemble":
    from dgn.training.build import build_for_inputs, inputs_for

    return build_for_inputs(experiment.network, inputs_for(experiment.data), UNKNOWN)
