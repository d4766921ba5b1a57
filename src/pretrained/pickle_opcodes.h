// Instructions of Python's pickle format, by the names of its module pickletools. For pickle.cpp alone.
#pragma once

#include <cstdint>

namespace trainctl::pretrained::opcode {

inline constexpr std::uint8_t kMark = '(';
inline constexpr std::uint8_t kStop = '.';
inline constexpr std::uint8_t kPop = '0';
inline constexpr std::uint8_t kPopMark = '1';
inline constexpr std::uint8_t kDup = '2';
inline constexpr std::uint8_t kBinfloat = 'G';
inline constexpr std::uint8_t kBinint = 'J';
inline constexpr std::uint8_t kBinint1 = 'K';
inline constexpr std::uint8_t kBinint2 = 'M';
inline constexpr std::uint8_t kNone = 'N';
inline constexpr std::uint8_t kBinpersid = 'Q';
inline constexpr std::uint8_t kReduce = 'R';
inline constexpr std::uint8_t kBinstring = 'T';
inline constexpr std::uint8_t kShortBinstring = 'U';
inline constexpr std::uint8_t kBinunicode = 'X';
inline constexpr std::uint8_t kEmptyList = ']';
inline constexpr std::uint8_t kAppend = 'a';
inline constexpr std::uint8_t kBuild = 'b';
inline constexpr std::uint8_t kGlobal = 'c';
inline constexpr std::uint8_t kAppends = 'e';
inline constexpr std::uint8_t kBinget = 'h';
inline constexpr std::uint8_t kLongBinget = 'j';
inline constexpr std::uint8_t kBinput = 'q';
inline constexpr std::uint8_t kLongBinput = 'r';
inline constexpr std::uint8_t kSetitem = 's';
inline constexpr std::uint8_t kTuple = 't';
inline constexpr std::uint8_t kSetitems = 'u';
inline constexpr std::uint8_t kEmptyDict = '}';
inline constexpr std::uint8_t kEmptyTuple = ')';
inline constexpr std::uint8_t kBinbytes = 'B';
inline constexpr std::uint8_t kShortBinbytes = 'C';
inline constexpr std::uint8_t kProto = 0x80;
inline constexpr std::uint8_t kNewobj = 0x81;
inline constexpr std::uint8_t kTuple1 = 0x85;
inline constexpr std::uint8_t kTuple2 = 0x86;
inline constexpr std::uint8_t kTuple3 = 0x87;
inline constexpr std::uint8_t kNewtrue = 0x88;
inline constexpr std::uint8_t kNewfalse = 0x89;
inline constexpr std::uint8_t kLong1 = 0x8a;
inline constexpr std::uint8_t kLong4 = 0x8b;
inline constexpr std::uint8_t kShortBinunicode = 0x8c;
inline constexpr std::uint8_t kBinunicode8 = 0x8d;
inline constexpr std::uint8_t kBinbytes8 = 0x8e;
inline constexpr std::uint8_t kEmptySet = 0x8f;
inline constexpr std::uint8_t kAdditems = 0x90;
inline constexpr std::uint8_t kFrozenset = 0x91;
inline constexpr std::uint8_t kStackGlobal = 0x93;
inline constexpr std::uint8_t kMemoize = 0x94;
inline constexpr std::uint8_t kFrame = 0x95;

}  // namespace trainctl::pretrained::opcode
