// SPDX-License-Identifier: MIT OR Apache-2.0
#include "manual.h"

namespace cachalot::cli {
namespace {

constexpr const char* kExamples = R"(.SH EXAMPLES
Show what memory a program asks the driver for, with where in it:
.PP
.EX
cachalot record \-\-stacks 16 \-\- ./server \-\-port 8000
.EE
.PP
Serve its requests from the cache, at most 8 GiB of each device:
.PP
.EX
cachalot run \-\-limit 8GiB \-\- ./server \-\-port 8000
.EE
.PP
Find the options that a recorded run needs, and look at the run as a page:
.PP
.EX
cachalot tune server\-4711.trace
cachalot report server\-4711.trace \-o server.html
.EE
)";

// So that nothing in it is taken for a request: a dash is one that can be copied.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char letter : text) {
    if (letter == '\\') {
      out += "\\e";
    } else if (letter == '-') {
      out += "\\-";
    } else if ((letter == '.' || letter == '\'') && (out.empty() || out.back() == '\n')) {
      out += std::string("\\&") + letter;
    } else {
      out += letter;
    }
  }
  return out;
}

std::string bold(const std::string& text) { return "\\fB" + escaped(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + escaped(text) + "\\fR"; }

std::string value_of(const OptionText& option) {
  if (option.choices.empty()) return italic(option.value);
  std::string text;
  for (const std::string& choice : option.choices) text += (text.empty() ? "" : "|") + bold(choice);
  return text;
}

std::string sentence(const std::string& text) {
  return escaped(text) + (text.ends_with('.') ? "" : ".");
}

std::string option_entry(const OptionText& option) {
  std::string text = ".TP\n";
  std::string names;
  for (const std::string& name : option.names) names += (names.empty() ? "" : ", ") + bold(name);
  if (names.empty()) {
    text += italic(option.value);
  } else {
    text += names + (option.value.empty() ? "" : " " + value_of(option));
  }
  return text + "\n" + escaped(option.text) + "\n";
}

std::string synopsis(const CommandText& program) {
  std::string text;
  for (const CommandText& command : program.commands) {
    text += (text.empty() ? "" : ".br\n") + bold(program.name) + " " + bold(command.name) + " [" +
            italic("options") + "]";
    for (const OptionText& option : command.options)
      if (option.names.empty()) text += " " + italic(option.value);
    if (command.starts_program)
      text += " " + bold("--") + " " + italic("PROGRAM") + " [" + italic("ARGUMENTS") + "]...";
    text += "\n";
  }
  return text;
}

// A command without a footer of its own has the program's.
std::string command_section(const CommandText& command, const std::string& usual_footer) {
  std::string text = ".SS " + escaped(command.name) + "\n" + sentence(command.text) + "\n";
  for (const OptionText& option : command.options) text += option_entry(option);
  if (command.footer != usual_footer) text += ".PP\n" + escaped(command.footer) + "\n";
  return text;
}

}  // namespace

std::string man_page(const CommandText& program) {
  std::string text =
      ".\\\" SPDX-License-Identifier: MIT OR Apache-2.0\n.TH CACHALOT 1 \"\" cachalot \"User "
      "Commands\"\n";
  text += ".SH NAME\n" + program.name + " \\- " + escaped(program.text) + "\n";
  text += ".SH SYNOPSIS\n" + synopsis(program);
  text += ".SH OPTIONS\n";
  for (const OptionText& option : program.options) text += option_entry(option);
  text += ".SH COMMANDS\n";
  for (const CommandText& command : program.commands)
    text += command_section(command, program.footer);
  text += ".SH EXIT STATUS\n" + escaped(program.footer) + "\n";
  return text + kExamples;
}

}  // namespace cachalot::cli
