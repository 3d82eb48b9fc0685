"""Reproduce the paper: train the cells of its tables, collect results, write the result pages.

Runs from a checkout; not part of the installed package.

    python -m reproduce table1 --dataset zinc --data FOLDER
    python -m reproduce results --collect runs
    python -m reproduce queue --data FOLDER --minutes 9
"""
