#!/bin/bash
# scripts/check_layers passes on the real tree and finds every kind of planted violation, by file, line and rule.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
check=$root/scripts/check_layers
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

fail() { echo "FAILED: $*"; exit 1; }

"$check" "$root" >/dev/null || { "$check" "$root"; fail "the real tree has a violation"; }

# plant FILE INCLUDE...: a fresh copy of the tree plus one file, whose second line on are these includes.
plant() {
  rm -rf "${tree:?}"/*
  for folder in src tools; do
    [ -d "$root/$folder" ] && cp -r "$root/$folder" "$tree/"
  done
  local file=$1
  shift
  mkdir -p "$(dirname "$tree/$file")"
  { echo "// planted"; printf '#include %s\n' "$@"; } > "$tree/$file"
}

# refused FILE INCLUDE TEXT: the include in line 2 of FILE is reported, with TEXT in the message.
refused() {
  plant "$1" "$2"
  local output
  output=$("$check" "$tree") && fail "$2 in $1 was accepted"
  grep -qF "$1:2:" <<< "$output" || fail "$2 in $1: no file and line in: $output"
  grep -qF -- "$3" <<< "$output" || fail "$2 in $1: expected \"$3\" in: $output"
}

accepted() {
  plant "$@"
  local output
  output=$("$check" "$tree") || fail "${*:2} in $1 was refused: $output"
}

refused src/base/planted.h '"ops/matmul.h"' "base may not use ops"
refused src/interp/planted.cc '"ops/matmul.h"' "interp may not use ops"
refused src/runtime/planted.cc '"base/hash.h"' "runtime may not use base"
refused src/te/planted.cc '"driver/options.h"' "te may not use driver"
refused src/te/planted.cc '"nowhere/x.h"' "no module named nowhere"
refused src/te/planted.cc '"expr.h"' "includes are written from src/"
refused src/te/planted.cc '"../ir/graph.h"' "includes are written from src/"
refused src/te/deep/planted.cc '"ir/graph.h"' "te may not use ir"

refused src/ir/planted.cc '<google/protobuf/message.h>' "belongs to: src/onnx/*.cc"
refused src/onnx/planted.h '"onnx.pb.h"' "belongs to: src/onnx/*.cc"
refused src/driver/planted.cc '<CLI/CLI.hpp>' "belongs to: tools/*"
refused src/ir/planted.cc '<nlohmann/json.hpp>' "belongs to: src/driver/*.cc"
refused src/driver/planted.h '<nlohmann/json.hpp>' "belongs to: src/driver/*.cc"
refused src/ir/planted.cc '<z3++.h>' "belongs to: src/verify/*.cc"
refused src/loop/planted.cc '<llvm/IR/IRBuilder.h>' "belongs to: src/codegen/*.cc"
refused src/search/planted.cc '<sqlite3.h>' "belongs to: src/cost/*.cc"
refused src/runtime/planted.cc '<fmt/format.h>' "belongs to"
refused src/te/planted.cc '<gtest/gtest.h>' "tests only"
refused src/te/planted.cc '"build_info.h"' "is for: src/driver/*"

accepted src/ops/planted.cc '"ir/graph.h"' '"te/expr.h"' '"base/hash.h"' '<vector>' '<fmt/format.h>'
accepted src/rewrite/planted.cc '<fmt/format.h>'
accepted src/onnx/planted_proto.h '"onnx.pb.h"'
accepted src/driver/planted.cc '"onnx/import.h"' '"search/beam.h"' '<nlohmann/json.hpp>' '"build_info.h"'
accepted src/driver/planted.h '<nlohmann/json_fwd.hpp>'
accepted src/codegen/llvm/planted.cc '<llvm/IR/IRBuilder.h>' '"loop/schedule.h"'
accepted tools/isomer/planted.cc '<CLI/CLI.hpp>' '"isomer/command.h"' '"driver/run.h"'

plant src/stray/planted.cc '"base/hash.h"'
"$check" "$tree" >/dev/null && fail "a folder outside the table was accepted"
echo "check_layers: all planted violations found"
