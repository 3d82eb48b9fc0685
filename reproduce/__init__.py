"""Reproduce the paper: train its tables, collect results, write the pages made of them.

Run from a checkout; not part of the installed package.

    python -m reproduce table1 --dataset zinc --data FOLDER
    python -m reproduce results --collect runs
    python -m reproduce queue --data FOLDER --minutes 9
"""
