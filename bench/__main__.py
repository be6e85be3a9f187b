"""The benchmarks: `python -m bench`. Everything is a ratio of two things measured in turn in this one run."""

from typing import Annotated

import typer
from rich.console import Console

app = typer.Typer(add_completion=False, help=__doc__)


@app.callback(invoke_without_command=True)
def both(context: typer.Context) -> None:
    """Run both benchmarks as they are set up."""
    if context.invoked_subcommand is None:
        components()
        images()


@app.command()
def components() -> None:
    """Measure what evaluating the components costs above the same resources declared raw."""
    from . import components as measured

    measured.run(Console())


@app.command()
def images(
    size: Annotated[int, typer.Option(min=1, help="Size of the disk in GiB, for the times.")] = 2,
    data: Annotated[int, typer.Option(min=1, help="MiB of it that are not zero, about.")] = 300,
    rounds: Annotated[int, typer.Option(min=1, help="How often each is timed.")] = 3,
    memory_size: Annotated[int, typer.Option(min=0, help="Size of the disk in GiB, for the memory; 0: none.")] = 11,
) -> None:
    """Measure the upload of an image against the tools that do it by hand."""
    from . import images as measured

    measured.run(Console(), size=size, data=data, rounds=rounds, memory_size=memory_size)


if __name__ == "__main__":
    app()
