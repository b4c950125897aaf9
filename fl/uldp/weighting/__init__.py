"""Uldp-FL's Protocol 1: silos use weights n_su / N_u that nobody learns."""
