"""Searching for settings: spaces in YAML, trials that are ordinary runs, the choice by validation alone."""
