"""The driver: the WebAssembly that stands between the host and the guest.

It makes one call of a descriptor one crossing, tells the guest the time, and is the
guest's module loader. It is text, compiled at start in about a millisecond.
"""

from __future__ import annotations

from .guestfile import LOADER_SLOT

__all__ = ["COMPILE_MODULE", "DRIVER_WAT", "EXCEPTION_TAG", "UNDEFINED"]

COMPILE_MODULE = 1 | 1 << 5
"""JS_EVAL_TYPE_MODULE | JS_EVAL_FLAG_COMPILE_ONLY."""

EXCEPTION_TAG = 6
"""JS_TAG_EXCEPTION: the upper half of the 64-bit value a failed C function returns."""

UNDEFINED = 3 << 32
"""JS_UNDEFINED as a 64-bit value."""

# Records of sources, in guest memory: next record @0, name @4, text @8, its length @12.
# Frame of a call, in guest memory (little endian): context @0, JSON text @4, its
# length @8, a file name @12, function @16 (8 bytes), result text @24, stack top @28,
# result length @32, argument vector @40 (8 bytes).
DRIVER_WAT = f"""
(module
  (import "guest" "memory" (memory 1))
  (import "guest" "__stack_pointer" (global $sp (mut i32)))
  (import "guest" "JS_ParseJSON" (func $parse (param i32 i32 i32 i32) (result i64)))
  (import "guest" "JS_Call" (func $call (param i32 i64 i64 i32 i32) (result i64)))
  (import "guest" "JS_ToCStringLen2" (func $text (param i32 i32 i64 i32) (result i32)))
  (import "guest" "JS_Eval" (func $eval (param i32 i32 i32 i32 i32) (result i64)))
  (import "guest" "JS_ThrowReferenceError" (func $throw (param i32 i32 i32) (result i64)))
  (import "guest" "js_module_set_import_meta"
    (func $set_meta (param i32 i64 i32 i32) (result i32)))
  (import "trampolines" "table" (table $wasi 1 funcref))
  (import "guest" "__indirect_function_table" (table $functions {LOADER_SLOT + 1} funcref))
  (global $sources (mut i32) (i32.const 0))
  (global $now (mut i64) (i64.const 0))
  (func $clock (param i32 i64 i32) (result i32)
    (i64.store (local.get 2) (global.get $now)) (i32.const 0))
  (elem (table $wasi) (i32.const 0) func $clock)
  (elem (table $functions) (i32.const {LOADER_SLOT}) func $load)
  (func $same (param $a i32) (param $b i32) (result i32)
    (loop $next
      (if (i32.ne (i32.load8_u (local.get $a)) (i32.load8_u (local.get $b)))
        (then (return (i32.const 0))))
      (if (i32.eqz (i32.load8_u (local.get $a))) (then (return (i32.const 1))))
      (local.set $a (i32.add (local.get $a) (i32.const 1)))
      (local.set $b (i32.add (local.get $b) (i32.const 1)))
      (br $next))
    unreachable)
  ;; JSModuleLoaderFunc; its third argument is the message for a name that is not listed.
  (func $load (param $context i32) (param $name i32) (param $message i32) (result i32)
    (local $at i32) (local $v i64)
    (local.set $at (global.get $sources))
    (block $none (loop $next
      (br_if $none (i32.eqz (local.get $at)))
      (if (call $same (local.get $name) (i32.load offset=4 (local.get $at))) (then
        (local.set $v (call $eval (local.get $context) (i32.load offset=8 (local.get $at))
          (i32.load offset=12 (local.get $at)) (local.get $name) (i32.const {COMPILE_MODULE})))
        (if (call $failed (local.get $v)) (then (return (i32.const 0))))
        (if (i32.lt_s (call $set_meta (local.get $context) (local.get $v) (i32.const 0)
                                      (i32.const 0)) (i32.const 0))
          (then (return (i32.const 0))))
        (return (i32.wrap_i64 (local.get $v)))))
      (local.set $at (i32.load (local.get $at)))
      (br $next)))
    (drop (call $throw (local.get $context) (local.get $message) (i32.const 0)))
    (i32.const 0))
  (func (export "set_sources") (param i32) (global.set $sources (local.get 0)))
  (func $failed (param i64) (result i32)
    (i64.eq (i64.shr_u (local.get 0) (i64.const 32)) (i64.const {EXCEPTION_TAG})))
  (func (export "set_clock") (param i64) (global.set $now (local.get 0)))
  (func (export "run") (param $f i32) (param $time i64) (result i32) (local $v i64)
    (global.set $now (local.get $time))
    (global.set $sp (i32.load offset=28 (local.get $f)))
    (local.set $v (call $parse (i32.load (local.get $f)) (i32.load offset=4 (local.get $f))
                               (i32.load offset=8 (local.get $f))
                               (i32.load offset=12 (local.get $f))))
    (if (call $failed (local.get $v)) (then (return (i32.const 1))))
    (i64.store offset=40 (local.get $f) (local.get $v))
    (local.set $v (call $call (i32.load (local.get $f)) (i64.load offset=16 (local.get $f))
                              (i64.const {UNDEFINED}) (i32.const 1)
                              (i32.add (local.get $f) (i32.const 40))))
    (if (call $failed (local.get $v)) (then (return (i32.const 2))))
    (i32.store offset=24 (local.get $f)
      (call $text (i32.load (local.get $f)) (i32.add (local.get $f) (i32.const 32))
                  (local.get $v) (i32.const 0)))
    (if (i32.load offset=24 (local.get $f)) (then (return (i32.const 0))))
    (i32.const 3)))
"""
