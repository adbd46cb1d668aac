"""What is to be evaluated: `experiment.yaml`, its defaults, and what follows from it."""

from rag_assets.experiment.config import ExperimentConfig
from rag_assets.experiment.experiment import Experiment
from rag_assets.experiment.load import load_experiment

__all__ = ["Experiment", "ExperimentConfig", "load_experiment"]
