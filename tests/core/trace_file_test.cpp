// SPDX-License-Identifier: MIT OR Apache-2.0
// Trace files: what is read from them, what is refused and with which words, and that what is
// written reads as it was.
#include "replay/trace_file.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/text.h"
#include "replay/event_line.h"
#include "replay/stream_choice.h"
#include "replay/trace_header.h"
#include "trace_text.h"

namespace cachalot {
namespace {

std::string error_of(const std::string& text) {
  try {
    read_text(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::kIo);
    return error.message();
  }
  return "no error";
}

std::string event_error(const std::string& events) { return error_of(kHeader + events); }

TraceHeader header_of(const std::string& json) { return parse_trace_header("# " + json); }

std::string header_error(const std::string& line) { return error_of(line + "\n"); }

TEST(TraceHeader, SaysWhatRanAndHow) {
  const TraceHeader header = header_of(
      R"({"workload": "gpt2", "torch": "2.11.0+cu130", "config": {"x": [1, {"y": null}],)"
      R"( "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64"}, "device_total": 150109880320,)"
      R"( "stats": {"num_ooms": 3, "ratio": 0.5, "max_split_size": -1}})");
  EXPECT_EQ(header.workload, "gpt2");
  EXPECT_EQ(header.torch, "2.11.0+cu130");
  EXPECT_EQ(header.config, "max_split_size_mb:64");
  EXPECT_EQ(header.device_total, 150109880320u);
  EXPECT_EQ(header.warm_up, 4u);
  ASSERT_EQ(header.stats.size(), 2u);
  EXPECT_EQ(header.stat("num_ooms"), 3);
  EXPECT_EQ(header.stat("max_split_size"), -1);
  EXPECT_EQ(header.stat("ratio"), 0);
}

TEST(TraceHeader, MayLeaveEverythingOut) {
  const TraceHeader header = header_of("{}");
  EXPECT_EQ(header.workload, "");
  EXPECT_EQ(header.config, "");
  EXPECT_EQ(header.device_total, 0u);
  EXPECT_FALSE(header.release());
}

TEST(TraceHeader, NamesTheReleaseOfItsFirstTwoNumbers) {
  const auto release_of = [](const char* torch) {
    TraceHeader header;
    header.torch = torch;
    return header.release();
  };
  EXPECT_EQ(release_of("2.11.0+cu130"), Release::k2_11);
  EXPECT_EQ(release_of("2.15"), Release::k2_15);
  EXPECT_EQ(release_of("2.15.1"), Release::k2_15);
  EXPECT_FALSE(release_of("2.1.0"));
  EXPECT_FALSE(release_of("2.115.0"));
  EXPECT_FALSE(release_of(""));
}

TEST(TraceHeader, ReadsEscapedTexts) {
  EXPECT_EQ(header_of(R"({"workload": "a\"b\\\n\u00e9\ud83d\ude00"})").workload,
            "a\"b\\\n\xc3\xa9\xf0\x9f\x98\x80");
}

TEST(TraceHeader, RefusesWhatIsNotJson) {
  EXPECT_EQ(header_error("# {\"other\": }"), "line 1: not JSON: no value at column 11");
  EXPECT_EQ(header_error("# {\"a\": 1,}"), "line 1: not JSON: no '\"' at column 9");
  EXPECT_EQ(header_error("# {} {}"), "line 1: not JSON: text after the end at column 4");
  EXPECT_EQ(header_error("# {\"workload\": 7}"), "line 1: not JSON: no '\"' at column 14");
  EXPECT_EQ(header_error("# {\"a\": 1-2}"), "line 1: not JSON: a bad number at column 10");
  EXPECT_EQ(header_error("# {\"workload\": \"\\ud800x\"}"),
            "line 1: not JSON: half a character at column 21");
  EXPECT_EQ(header_error("# {\"a\": " + std::string(100, '[')),
            "line 1: not JSON: too many brackets at column 71");
  EXPECT_EQ(header_error("# {\"device_total\": 1.5}"),
            "line 1: not JSON: not a whole number at column 21");
  EXPECT_EQ(header_error("# {\"device_total\": -1}"), "line 1: device_total is -1 bytes");
}

TEST(TraceHeader, HasNumbersOfJsonsGrammar) {
  for (const char* number : {"0", "-0", "10", "0.5", "-1.25e+3", "1E9", "7e-2", "1e999"})
    EXPECT_EQ(header_of(format(R"({"other": %s, "workload": "w"})", number)).workload, "w")
        << number;
  for (const char* number : {"-", "01", "-01", "1.", "1.e2", "1e", "1e+", "+1", "1.2.3", "1e2e3"})
    EXPECT_NE(header_error(format("# {\"other\": %s}", number)), "") << number;
}

TEST(TraceHeader, IsNeeded) {
  const std::string missing = "line 1: not a trace: the header, \"# {...}\", is missing";
  EXPECT_EQ(error_of(""), missing);
  EXPECT_EQ(error_of("a,200,1,0\n"), missing);
}

TEST(TraceHeader, ReadsAsItWasWritten) {
  TraceHeader header;
  header.workload = "a \"quoted\"\tname\\";
  header.recorder = "a test";
  header.torch = "2.15.0";
  header.config = "expandable_segments:True";
  header.device_total = 1 << 30;
  header.warm_up = 0;
  header.stats = {{"num_ooms", 3}, {"max_split_size", -1}};
  std::string line = format_trace_header(header);
  ASSERT_EQ(line.back(), '\n');
  line.pop_back();
  const TraceHeader read = parse_trace_header(line);
  EXPECT_EQ(read.workload, header.workload);
  EXPECT_EQ(read.recorder, header.recorder);
  EXPECT_EQ(read.torch, header.torch);
  EXPECT_EQ(read.config, header.config);
  EXPECT_EQ(read.device_total, header.device_total);
  EXPECT_EQ(read.warm_up, 0u);
  EXPECT_EQ(read.stat("num_ooms"), 3);
  EXPECT_EQ(read.stat("max_split_size"), -1);
}

TEST(TraceFile, ReadsEveryField) {
  const Trace trace = read_events("S,7f00,2097152,a0\na,7f00,512,a0,1,0:7,1700000000000000,ff\n");
  ASSERT_EQ(trace.events.size(), 2u);
  const TraceEvent& event = trace.events[1];
  EXPECT_EQ(event.action(), Action::kAlloc);
  EXPECT_EQ(event.address, 0x7f00u);
  EXPECT_EQ(event.size, 512u);
  EXPECT_EQ(event.stream, 0xa0u);
  EXPECT_EQ(event.device, 1);
  EXPECT_EQ(trace.pool_of(event), (PoolId{0, 7}));
  EXPECT_EQ(event.time_us, 1700000000000000);
  EXPECT_EQ(event.context, 0xffu);
  EXPECT_EQ(trace.device_count, 2);
  EXPECT_EQ(trace.events[0].time_us, -1);
  EXPECT_EQ(trace.events[0].context, 0u);
  EXPECT_TRUE(trace.pool_of(trace.events[0]).is_default());
}

TEST(TraceFile, TakesEmptyFieldsAsNotSaid) {
  const Trace trace = read_events("a,200,1,0,,,,\na,400,1,0,,,5\na,600,1,0,,0:0\n");
  EXPECT_EQ(trace.events[0].time_us, -1);
  EXPECT_EQ(trace.events[1].time_us, 5);
  EXPECT_TRUE(trace.pool_of(trace.events[2]).is_default());
  EXPECT_EQ(trace.device_count, 1);
}

TEST(TraceFile, KnowsEveryAction) {
  const Trace trace = read_events(
      "a,200,1,0\nq,200,1,0\nc,200,1,0\nS,1,1,0\nF,1,1,0\nM,1,1,0\n"
      "U,1,1,0\ns,0,1,0\no,1,1,0\nn,1,1,0\n");
  ASSERT_EQ(trace.events.size(), static_cast<size_t>(kActionCount));
  for (int i = 0; i < kActionCount; i++)
    EXPECT_EQ(trace.events[static_cast<size_t>(i)].action(), static_cast<Action>(i));
}

constexpr const char* kHeader2 = "# {\"format\": 2}\n";

Trace read_events_of_format_2(const std::string& events) { return read_text(kHeader2 + events); }

std::string error_of_format_2(const std::string& events) { return error_of(kHeader2 + events); }

TEST(TraceFormat2, SaysInItsHeaderWhichProcessWasRecorded) {
  const TraceHeader header =
      header_of(R"({"command": "./server --port 80", "pid": 4711, "parent": 4700, "driver": 13000,)"
                R"( "start_us": 1700000000000000, "format": 2})");
  EXPECT_EQ(header.format, 2);
  EXPECT_EQ(header.command, "./server --port 80");
  EXPECT_EQ(header.pid, 4711);
  EXPECT_EQ(header.parent, 4700);
  EXPECT_EQ(header.driver, 13000);
  EXPECT_EQ(header.start_us, 1700000000000000);
  EXPECT_EQ(header.warm_up, 0u) << "a program has none";
  EXPECT_EQ(header_of("{}").format, 1);
}

TEST(TraceFormat2, IsTheLastThatIsKnown) {
  EXPECT_EQ(header_error("# {\"format\": 3}"), "line 1: trace format 3 is not known: 1 and 2 are");
}

TEST(TraceFormat2, DoesNotTakeItsKeysFromHeadersOfFormat1) {
  const TraceHeader header =
      header_of(R"({"driver": "580.159.04", "command": ["a"], "pid": 4711})");
  EXPECT_EQ(header.driver, 0);
  EXPECT_EQ(header.command, "");
  EXPECT_EQ(header.pid, 0);
}

TEST(TraceFormat2, HasMoreFieldsOfAnEvent) {
  const Trace trace = read_events_of_format_2(
      "a,200,512,a0,0,,5,ff,34000,s,4711,,,c0de\nq,200,512,a0,0,,6,,,t,,b0\nc,200,512,a0\n"
      "k,200,0,a0,0,,7,,12900,t,,,11000\n");
  ASSERT_EQ(trace.details.size(), 4u);
  EXPECT_EQ(trace.details[0].cost_ns, 34000);
  EXPECT_EQ(trace.details[0].wait_ns, -1);
  EXPECT_EQ(trace.details[0].entry, 's');
  EXPECT_EQ(trace.details[0].thread, 4711u);
  EXPECT_EQ(trace.details[0].freed_on, Stream{0xa0});
  EXPECT_EQ(trace.details[0].driver_context, 0xc0deu);
  EXPECT_EQ(trace.details[1].thread, 0u);
  EXPECT_EQ(trace.details[1].freed_on, Stream{0xb0});
  EXPECT_EQ(trace.details[2].cost_ns, -1);
  EXPECT_EQ(trace.details[3].wait_ns, 11000);
}

TEST(TraceFormat2, KnowsTheActionsOfPrograms) {
  std::string lines;
  for (const char letter : std::string("bARkxCDghwWez"))
    lines += letter + std::string(",200,1,0\n");
  const Trace trace = read_events_of_format_2(lines);
  ASSERT_EQ(trace.events.size(), static_cast<size_t>(kRecordedActionCount - kActionCount));
  for (int i = 0; i < kRecordedActionCount - kActionCount; i++)
    EXPECT_EQ(trace.events[static_cast<size_t>(i)].action(), static_cast<Action>(kActionCount + i));
}

TEST(TraceFormat2, HasStacksAndModules) {
  const Trace trace = read_events_of_format_2(
      "# stack ff 401000;7f001234\na,200,1,0\n# module 400000 480000 1000 /usr/bin/a b\n"
      "# later: more\n# stack fe\n");
  ASSERT_EQ(trace.stacks.size(), 2u);
  EXPECT_EQ(trace.stacks[0].context, 0xffu);
  EXPECT_EQ(trace.stacks[0].frames, (std::vector<Address>{0x401000, 0x7f001234}));
  EXPECT_EQ(trace.stacks[0].modules, 0u);
  EXPECT_EQ(trace.stacks[1].frames, (std::vector<Address>{}));
  EXPECT_EQ(trace.stacks[1].modules, 1u);
  ASSERT_EQ(trace.modules.size(), 1u);
  EXPECT_EQ(trace.modules[0].begin, 0x400000u);
  EXPECT_EQ(trace.modules[0].end, 0x480000u);
  EXPECT_EQ(trace.modules[0].offset, 0x1000u);
  EXPECT_EQ(trace.modules[0].path, "/usr/bin/a b");
  EXPECT_EQ(trace.events.size(), 1u);
  EXPECT_EQ(trace.line_of(0), 3u);
}

TEST(TraceFormat2, CountsCommentsAsLines) {
  EXPECT_EQ(error_of_format_2("# a\na,200,1,0\n# b\nf,1,1,1\n"), "line 5: not an event 'f,1,1,1'");
  EXPECT_EQ(error_of_format_2("# a\n# stack \n"),
            "line 3: neither an event nor a comment '# stack '");
}

TEST(TraceFormat2, IsRefusedInFilesOfFormat1) {
  for (const std::string line :
       {"b,200,1,0\n", "a,200,1,0,0,,5,ff,34000\n", "# stack ff 1\n", "A,200,1,0\n"}) {
    EXPECT_NE(event_error(line), "no error") << line;
    EXPECT_EQ(error_of_format_2(line), "no error") << line;
  }
}

TEST(TraceFormat2, RefusesMalformedFields) {
  for (const char* line :
       {"a,200,1,0,,,,,x", "a,200,1,0,,,,,-1", "a,200,1,0,,,,,,z", "a,200,1,0,,,,,,ss",
        "a,200,1,0,,,,,,,x", "a,200,1,0,,,,,,,,g", "a,200,1,0,,,,,,,,1,x", "a,200,1,0,,,,,,,,,,g",
        "a,200,1,0,,,,,,,,1,1,1,", "#stack", "# stack 0 1", "# stack ff ", "# stack ff 1;",
        "# stack ff 1 2", "# module 1 1 0 a", "# module 1 2 0 ", "# module 1 2 a",
        "# module x 2 0 a", "# stack 11111111111111111 1"})
    EXPECT_NE(error_of_format_2(line + std::string("\n")), "no error") << line;
}

TEST(TraceFormat2, EndsWhereARecorderThatWasKilledHasLeftRoom) {
  const std::string lines = "a,200,1,0\n# stack ff 1\n";
  for (const size_t room : {size_t{1}, size_t{4096}, size_t{3} << 20}) {
    const Trace trace = read_events_of_format_2(lines + std::string(room, '\0'));
    EXPECT_EQ(trace.events.size(), 1u);
    EXPECT_EQ(trace.stacks.size(), 1u);
  }
  // A thread had written its line, the one before it had not yet.
  EXPECT_EQ(read_events_of_format_2(lines + std::string(20, '\0') + "\na,400,1,0\n").events.size(),
            1u);
  EXPECT_NE(event_error(lines + std::string(1, '\0')), "no error") << "in format 1";
}

TEST(TraceFormat2, EndsAtALineThatWasBeingWrittenWhileItWasRead) {
  const std::string lines = "a,200,1,0\n# stack ff 1\n";
  for (const char* begin : {"a,400", "# stack fe"}) {
    const std::string unfinished = begin + std::string(3, '\0');
    const Trace trace = read_events_of_format_2(lines + unfinished + "\na,600,1,0\n");
    EXPECT_EQ(trace.events.size(), 1u) << begin;
    EXPECT_EQ(trace.stacks.size(), 1u) << begin;
  }
  EXPECT_NE(event_error("a,400" + std::string(1, '\0') + "\n"), "no error") << "in format 1";
}

TEST(TraceFormat2, LeavesALineOutThatWasCutOff) {
  for (const char* cut : {"a,400,1,7f12", "a,400,", "# mod", "a"})
    EXPECT_EQ(read_events_of_format_2(std::string("a,200,1,0\n") + cut).events.size(), 1u) << cut;
}

TEST(TraceFormat2, MayBeginWithLiveBlocks) {
  EXPECT_EQ(read_events_of_format_2("b,200,1,0\nb,400,1,0\na,600,1,0\nq,200,1,0\nc,200,1,0\n").flaw,
            "");
  EXPECT_EQ(read_events_of_format_2("a,600,1,0\n# x\nb,200,1,0\n").flaw,
            "line 4: 0x200 was live before the recording, but comes behind other events");
}

TEST(TraceFormat2, EndsTheBlocksOfADeviceWithItsContext) {
  EXPECT_EQ(
      read_events_of_format_2("a,200,1,0\na,200,1,0,1\nx,0,0,0,0\na,200,1,0\nx,0,0,0\nx,0,0,0\n")
          .flaw,
      "");
  EXPECT_EQ(read_events_of_format_2("a,200,1,0\na,200,1,0,1\nx,0,0,0,0\na,200,1,0,1\n").flaw,
            "line 5: 0x200 is handed out while it is in use");
}

TEST(TraceFormat2, KeepsTheOtherBlocksWhereAContextOfTheProgramsOwnEnds) {
  EXPECT_EQ(read_events_of_format_2("a,200,1,0\nx,7f00,0,0\na,200,1,0\n").flaw,
            "line 4: 0x200 is handed out while it is in use");
}

TEST(TraceFile, NeedsNoLastLineBreak) { EXPECT_EQ(read_events("a,200,1,0").events.size(), 1u); }

TEST(TraceFile, MayHaveNoEvents) { EXPECT_EQ(read_events("").events.size(), 0u); }

TEST(TraceFile, IsReadAlikeInPiecesOfAnySize) {
  std::string text = kHeader;
  for (int i = 1; i <= 300; i++) text += "a," + std::to_string(i) + "00,512,0\n";
  for (const size_t piece : {1u, 2u, 7u, 64u, 1000u}) {
    const Trace trace = read_text(text, piece);
    ASSERT_EQ(trace.events.size(), 300u) << piece;
    EXPECT_EQ(trace.events[299].address, 0x30000u) << piece;
  }
}

TEST(TraceFile, RefusesMalformedLinesWithTheirNumber) {
  EXPECT_EQ(event_error("a,200,1,0\nx,200,1,0\n"), "line 3: not an event 'x,200,1,0'");
  EXPECT_EQ(event_error("\n"), "line 2: not an event ''");
  EXPECT_EQ(event_error("a,200,1\n"), "line 2: not an event 'a,200,1'");
  EXPECT_EQ(event_error("a,,1,0\n"), "line 2: not an event 'a,,1,0'");
  EXPECT_EQ(event_error("a,0x200,1,0\n"), "line 2: not an event 'a,0x200,1,0'");
  EXPECT_EQ(event_error("a,200,-1,0\n"), "line 2: not an event 'a,200,-1,0'");
  EXPECT_EQ(event_error("a,200,1,0 \n"), "line 2: not an event 'a,200,1,0 '");
  EXPECT_EQ(event_error("a,200,1,0,0,7\n"), "line 2: not an event 'a,200,1,0,0,7'");
  EXPECT_EQ(event_error("a,200,1,0,0,7:7\n"), "line 2: not an event 'a,200,1,0,0,7:7'");
  EXPECT_EQ(event_error("a,200,1,0,0,,1,2,3\n"), "line 2: not an event 'a,200,1,0,0,,1,2,3'");
  EXPECT_EQ(event_error("a,200,1,0,64\n"), "line 2: no such device");
  EXPECT_EQ(event_error("\x01\xff" + std::string(100, 'y') + "\n"),
            "line 2: not an event '??" + std::string(58, 'y') + "...'");
}

TEST(TraceFile, RefusesNumbersBeyond64Bits) {
  EXPECT_EQ(read_events("a,ffffffffffffffff,18446744073709551615,0\n").events[0].size, UINT64_MAX);
  EXPECT_NE(event_error("a,10000000000000000,1,0\n"), "no error");
  EXPECT_NE(event_error("a,200,18446744073709551616,0\n"), "no error");
  EXPECT_NE(event_error("a,200,1,0,0,,9223372036854775808\n"), "no error");
}

TEST(TraceFile, NamesLinesBeyondAThousandWithCommas) {
  std::string events;
  for (int i = 0; i < 1202; i++) events += "s,0,0,0\n";
  EXPECT_EQ(event_error(events + "?\n"), "line 1,204: not an event '?'");
}

TEST(TraceFile, RefusesAnEndlessLine) {
  EXPECT_EQ(error_of("# " + std::string(2 << 20, ' ')), "line 1: longer than 1048576 bytes");
  EXPECT_EQ(event_error("s,0,0,0\n" + std::string(2 << 20, 'a')),
            "line 3: longer than 1048576 bytes");
}

TEST(TraceFile, GivesLiveBlocksSlotsOfTheirOwn) {
  const Trace trace =
      read_events("a,200,1,0\na,400,1,0\nq,200,1,0\nc,200,1,0\na,600,1,0\nq,400,1,0\nc,400,1,0\n");
  EXPECT_EQ(trace.block_slots, 2u);
  EXPECT_EQ(trace.events[2].block, trace.events[0].block);
  EXPECT_EQ(trace.events[4].block, trace.events[0].block);
  EXPECT_EQ(trace.events[5].block, trace.events[1].block);
  EXPECT_NE(trace.events[0].block, trace.events[1].block);
  EXPECT_TRUE(trace.late_frees.empty());
}

TEST(TraceFile, FindsLateFreesAndAsFewStreamsAsKeepThemInOrder) {
  const Trace trace = read_events(
      "a,200,1,0\na,400,1,0\na,600,1,0\nq,200,1,0\nq,400,1,0\nq,600,1,0\n"  // 3, 4, 5
      "c,400,1,0\nc,600,1,0\nc,200,1,0\n");                                 // 6, 7, 8
  ASSERT_EQ(trace.late_frees.size(), 3u);
  EXPECT_EQ(trace.late_frees[0].requested, 3u);
  EXPECT_EQ(trace.late_frees[0].completed, 8u);
  EXPECT_EQ(trace.late_frees[1].completed, 6u);
  EXPECT_EQ(trace.late_frees[2].completed, 7u);
  EXPECT_EQ(trace.late_frees[0].stream, 0xf001000u);
  EXPECT_EQ(trace.late_frees[1].stream, 0xf000000u);
  EXPECT_EQ(trace.late_frees[2].stream, 0xf000000u);
}

TEST(TraceFile, TakesTheLastFreeAsLateIfItIsNotCompleted) {
  const Trace trace = read_events("a,200,1,0\nq,200,1,0\n");
  ASSERT_EQ(trace.late_frees.size(), 1u);
  EXPECT_EQ(trace.late_frees[0].completed, kNoIndex);
}

TEST(TraceFile, SeesThatAFreeIsNotLateBetweenEventsOfOtherDevices) {
  const Trace trace = read_events(
      "a,200,1,0,0\na,400,1,0,1\nq,200,1,0,0\nq,400,1,0,1\n"
      "c,200,1,0,0\nc,400,1,0,1\n");
  EXPECT_TRUE(trace.late_frees.empty());
}

TEST(TraceFile, ReadsEventsThatCannotHaveHappenedAndSaysSo) {
  EXPECT_EQ(read_events("a,200,1,0\na,200,1,0\n").flaw,
            "line 3: 0x200 is handed out while it is in use");
  EXPECT_EQ(read_events("q,200,1,0\n").flaw, "line 2: 0x200 is freed but is not live");
  EXPECT_EQ(read_events("a,200,1,0\nq,200,1,0\nq,200,1,0\n").flaw, "line 4: 0x200 is freed twice");
  EXPECT_EQ(read_events("a,200,1,0\nc,200,1,0\n").flaw,
            "line 3: 0x200 completes a free that was not requested");
  EXPECT_EQ(read_events("a,0,1,0\n").flaw, "line 2: 0x0 is no address of a block");
  const Trace trace = read_events("q,200,1,0\na,400,1,0\n");
  EXPECT_EQ(trace.events.size(), 2u);
  EXPECT_EQ(trace.events[1].block, kNoBlock);
}

// Frees that complete in reverse order need a stream each, but for the last one, which is not late;
// and a replay looks at all of them.
TEST(TraceFlaw, IsANumberOfStreamsThatNoProgramHas) {
  const auto place = [](size_t i) { return format("%zx00,1,0\n", i); };
  const auto events = [&](size_t count) {
    std::string text;
    for (const char action : {'a', 'q'})
      for (size_t i = 1; i <= count; i++) text += std::string(1, action) + "," + place(i);
    for (size_t i = count; i >= 1; i--) text += "c," + place(i);
    return text;
  };
  EXPECT_EQ(read_events(events(kMaxMadeUpStreams + 1)).flaw, "");
  EXPECT_EQ(read_events(events(kMaxMadeUpStreams + 2)).flaw,
            "more than 1024 streams would be at work at a time");
}

TraceEntry entry(Action action, int device, Address address, int64_t time_us) {
  return {action, device, address, 512, 0xa0, {0, 3}, 0xbeef, time_us, nullptr, ""};
}

TEST(TraceFile, ReadsAsItWasWritten) {
  const std::vector<std::vector<TraceEntry>> rings{
      {entry(Action::kAlloc, 0, 0x200, 10), entry(Action::kFreeRequested, 0, 0x200, 30)},
      {entry(Action::kAlloc, 1, 0x400, 20), entry(Action::kSnapshot, 1, 0, 5)}};
  std::string text;
  write_trace({}, rings, [&](std::string_view bytes) { text += bytes; });
  const Trace trace = read_text(text);
  ASSERT_EQ(trace.events.size(), 4u);
  EXPECT_EQ(trace.events[0].time_us, 10);
  EXPECT_EQ(trace.events[1].time_us, 20);  // the order of a ring stays, whatever its clock says
  EXPECT_EQ(trace.events[2].action(), Action::kSnapshot);
  EXPECT_EQ(trace.events[3].action(), Action::kFreeRequested);
  EXPECT_EQ(trace.events[1].device, 1);
  EXPECT_EQ(trace.events[0].context, 0xbeefu);
  EXPECT_EQ(trace.events[0].stream, 0xa0u);
  EXPECT_EQ(trace.pool_of(trace.events[0]), (PoolId{0, 3}));
}

TEST(EventLine, IsWrittenWithoutEmptyEnds) {
  std::string text;
  const EventDetail on_its_stream{.freed_on = 0x10};
  append_event_line(&text, {Action::kSegmentAlloc, 0x7f00, 2048, 0, 0, {}, -1, 0, {}});
  append_event_line(&text, {Action::kAlloc, 0x7f00, 1, 0x10, 1, {4, 0}, -1, 0, on_its_stream});
  append_event_line(&text,
                    {Action::kFreeRequested, 0x7f00, 1, 0x10, 0, {}, 99, 0xab, on_its_stream});
  EXPECT_EQ(text, "S,7f00,2048,0,0\na,7f00,1,10,1,4:0\nq,7f00,1,10,0,,99,ab\n");
}

TEST(EventLine, OfFormat2ReadsAsItWasWritten) {
  const EventDetail none{.freed_on = 0x10};
  EventDetail entry = none;
  entry.entry = 'v';
  const EventDetail all{12900, 11000, 4711, 0, 0xc0de, 't'};
  for (const EventDetail& detail : {none, entry, all}) {
    std::string text;
    append_event_line(&text, {Action::kFreeRequested, 0x7f00, 1, 0x10, 0, {}, -1, 0, detail});
    EventLine line;
    ASSERT_EQ(parse_event_line(text.c_str(), 2, &line), text.c_str() + text.size()) << text;
    EXPECT_EQ(line.detail.cost_ns, detail.cost_ns);
    EXPECT_EQ(line.detail.wait_ns, detail.wait_ns);
    EXPECT_EQ(line.detail.freed_on, detail.freed_on);
    EXPECT_EQ(line.detail.driver_context, detail.driver_context);
    EXPECT_EQ(line.detail.thread, detail.thread);
    EXPECT_EQ(line.detail.entry, detail.entry);
  }
}

TEST(EventLine, OfTheLargestNumbersFitsItsRoom) {
  constexpr uint64_t kMost = UINT64_MAX;
  constexpr int64_t kLongest = INT64_MAX;
  const EventDetail detail{kLongest, kLongest, kMost, kMost, kMost, 'y'};
  std::string text;
  append_event_line(
      &text,
      {Action::kRecordingEnd, kMost, kMost, kMost - 1, kMost, {kMost, 0}, kLongest, kMost, detail});
  EXPECT_LE(text.size(), kMaxEventLine);
  EventLine line;
  ASSERT_EQ(parse_event_line(text.c_str(), 2, &line), text.c_str() + text.size()) << text;
  EXPECT_EQ(line.address, kMost);
  EXPECT_EQ(line.size, kMost);
  EXPECT_EQ(line.detail.thread, kMost);
}

TEST(TraceHeaderText, OfFormat2ReadsAsItWasWritten) {
  TraceHeader header;
  header.format = 2;
  header.command = "python3 \"train.py\"";
  header.pid = 4711;
  header.parent = 4710;
  header.driver = 13000;
  header.start_us = 1795614975705673;
  header.warm_up = 0;
  std::string text = format_trace_header(header);
  text.pop_back();
  const TraceHeader read = parse_trace_header(text);
  EXPECT_EQ(read.format, 2);
  EXPECT_EQ(read.command, header.command);
  EXPECT_EQ(read.pid, header.pid);
  EXPECT_EQ(read.parent, header.parent);
  EXPECT_EQ(read.driver, header.driver);
  EXPECT_EQ(read.start_us, header.start_us);
}

}  // namespace
}  // namespace cachalot
