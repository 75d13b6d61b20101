#!/usr/bin/env python3
"""Writes one small model per operator form that no public test data covers, with its inputs, for ONNX Runtime to answer.

    operators.py FOLDER [PREFIX]    ->  FOLDER/NAME/{model.onnx,input_N.pb}
"""
import sys

from operator_case import CASES, write
from operator_cases import declare

if __name__ == '__main__':
    declare()
    for name in sorted(CASES):
        if len(sys.argv) < 3 or name.startswith(sys.argv[2]):
            write(sys.argv[1], name)
