"""`python -m pace` is the command `pace`."""

from pace.cli import program

if __name__ == "__main__":
    program()
