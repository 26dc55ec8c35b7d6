"""The kind of work that a machine instruction does, with the same names as for PTX. Source: CUDA Binary Utilities,
"Instruction Set Reference", Turing to Blackwell."""

from __future__ import annotations

import re
from collections import Counter

from kcheck.linter.sass_text import Sass, SassInstruction
from kcheck.model.metrics import FAMILIES, SassCounts

_NAMES = {
    "float16": "HADD2 HMUL2 HFMA2 HADD2_32I HMUL2_32I HFMA2_32I HMNMX2",
    "float32": "FADD FMUL FFMA FADD32I FMUL32I FFMA32I FMNMX FMNMX3 FSWZADD FCHK FADD2 FMUL2 FFMA2",
    "float64": "DADD DMUL DFMA DMNMX",
    "tensor": "HMMA IMMA DMMA BMMA QMMA OMMA HGMMA IGMMA QGMMA BGMMA WARPGROUP UTCHMMA UTCIMMA UTCQMMA UTCOMMA "
    "UTCBAR UTCCP UTCSHIFT UTCATOMSWS LDT STT LDTM STTM",
    "special function": "MUFU",
    "integer": "IADD IADD3 IADD32I IADD64 IMAD IMAD32I IMUL IMUL32I ISCADD LEA LOP LOP3 LOP32I SHF SHL SHR BFE "
    "BFI BMSK BREV FLO POPC IABS IMNMX IMNMX3 VIADD VIMNMX VIMNMX3 VIADDMNMX VABSDIFF VABSDIFF4 IDP "
    "IDP4A SGXT XMAD VHMNMX",
    "compare": "FSETP FSET ISETP ISET DSETP DSET HSETP2 HSET2 PSETP PSET PLOP3 FSEL SEL SEL64 FCMP ICMP CSET "
    "CSETP",
    "convert": "F2F F2I F2IP F2FP I2F I2FP I2I I2IP FRND",
    "move": "MOV MOV32I MOV64 MOVM PRMT CS2R S2R S2UR R2UR UR2UP P2R R2P UP2UR BMOV LEPC GETLMEMBASE",
    "global memory": "LD LDG ST STG LDGSTS LDGDEPBAR LDGMC CCTL CCTLL CCTLT QSPC PREFETCH UBLKCP UBLKPF UBLKRED "
    "UTMALDG UTMASTG UTMAREDG UTMAPF UTMACCTL UTMACMDFLUSH TEX TLD TLD4 TMML TXD TXQ SULD SUST",
    "shared memory": "LDS STS LDSM STSM STAS",
    "local memory": "LDL STL",
    "constant memory": "LDC LDCU ULDC",
    "atomic": "ATOM ATOMG ATOMS RED REDG REDAS SUATOM SURED CAS",
    "warp": "SHFL VOTE VOTEU MATCH REDUX CREDUX ELECT WARPSYNC NANOSLEEP",
    "barrier": "BAR B2R R2B MEMBAR ERRBAR DEPBAR FENCE SYNCS CGAERRBAR UCGABAR_ARV UCGABAR_WAIT ACQBULK "
    "ENDCOLLECTIVE",
    "branch": "BRA BRX BRXU JMP JMX JMXU BSSY BSYNC BREAK BRK SSY SYNC PBK CONT EXIT KILL BPT RET YIELD "
    "WARPSYNCALL RTT PREEXIT",
    "call": "CALL CAL JCAL",
}
_FAMILY = {name: family for family, names in _NAMES.items() for name in names.split()}
_MOVE = re.compile(r"HFMA2\S* \w+, -RZ, RZ, ")
"""Zero plus a constant, with which the compiler loads a constant without using the integer unit."""
_WIDEN = re.compile(r"HADD2\.F32 \w+, -RZ, ")
"""Zero plus half a register, as a float32: a conversion."""


def sass_family(instruction: SassInstruction) -> str:
    """The name in FAMILIES as which it counts. Instructions of the uniform datapath count as those of lanes do."""
    name, _, modifiers = instruction.opcode.partition(".")
    if modifiers.startswith("MOV") or _MOVE.search(instruction.text):
        return "move"
    if _WIDEN.search(instruction.text):
        return "convert"
    return _FAMILY.get(name) or (_FAMILY.get(name[1:]) if name.startswith("U") else None) or "other"


def count_sass(code: Sass) -> SassCounts:
    """How many instructions a function has, and of what kinds."""
    counts = Counter(map(sass_family, code.instructions))
    return SassCounts(len(code.instructions), {name: counts[name] for name in FAMILIES if counts[name]})
