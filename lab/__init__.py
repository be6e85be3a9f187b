"""The whole program on one machine with no cloud account: the real engine against simulated clouds.

``python -m lab <pulumi words>`` runs the real Pulumi CLI on the program of this checkout. What is real and
what is simulated is printed at the start of every run that plans or changes something.
"""
