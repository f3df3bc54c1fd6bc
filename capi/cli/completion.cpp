// SPDX-License-Identifier: MIT OR Apache-2.0
#include "completion.h"

namespace cachalot::cli {
namespace {

constexpr const char* kHead = "# SPDX-License-Identifier: MIT OR Apache-2.0\n";

std::string joined(const std::vector<std::string>& words, const std::string& between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

// Without what the text says of defaults and of how the command is called: shells show one short line.
std::string short_text(const std::string& text) {
  const size_t bracket = text.find(" [");
  const size_t colon = text.find(": cachalot ");
  return text.substr(0, std::min(bracket, colon));
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

// Between single quotes of a shell.
std::string bash_quoted(const std::string& text) {
  return "'" + replaced(text, "'", "'\\''") + "'";
}

std::string fish_quoted(const std::string& text) {
  return "'" + replaced(replaced(text, "\\", "\\\\"), "'", "\\'") + "'";
}

std::vector<std::string> names_of(const CommandText& command) {
  std::vector<std::string> names;
  for (const OptionText& option : command.options)
    names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

// Of what a command takes without a name.
std::vector<std::string> argument_choices(const CommandText& command) {
  for (const OptionText& option : command.options)
    if (option.names.empty()) return option.choices;
  return {};
}

// run,--free | run,-f
std::string bash_pattern(const CommandText& command, const OptionText& option) {
  std::vector<std::string> words;
  for (const std::string& name : option.names) words.push_back(command.name + "," + name);
  return "    " + joined(words, " | ") + ")";
}

std::string bash_values(const CommandText& command) {
  std::string text;
  for (const OptionText& option : command.options) {
    if (option.names.empty() || option.value.empty()) continue;
    text += bash_pattern(command, option);
    if (!option.choices.empty()) {
      text += " COMPREPLY=($(compgen -W " + bash_quoted(joined(option.choices, " ")) +
              " -- \"$current\")) ;;\n";
    } else {
      text += option.is_number ? " compopt +o default ;;\n" : " ;;\n";  // else the names of files
    }
  }
  return text;
}

// A word of zsh's _arguments: (-o --output)'{-o,--output}'[text]:value:action
std::string zsh_option(const OptionText& option, bool starts_program) {
  const std::string action = !option.choices.empty() ? "(" + joined(option.choices, " ") + ")"
                             : option.is_number      ? " "
                                                     : "_files";
  if (option.names.empty())
    return starts_program ? "" : bash_quoted("*:" + option.value + ":" + action);
  std::string text = replaced(short_text(option.text), "\\", "\\\\");
  for (const char* special : {"[", "]", ":"})
    text = replaced(text, special, std::string("\\") + special);
  const std::string tail = "[" + text + "]" + (option.value.empty() ? "" : ":value:" + action);
  std::vector<std::string> words;
  for (const std::string& name : option.names) {
    std::string word = "*" + name;
    if (!option.value.empty() && name.starts_with("--")) word += '=';
    words.push_back(bash_quoted(word.append(tail)));
  }
  return joined(words, " ");
}

std::string fish_option(const CommandText& command, const OptionText& option) {
  std::string text = "complete -c cachalot -n ";
  text += command.name == "cachalot" ? "__fish_use_subcommand"
                                     : fish_quoted("__fish_seen_subcommand_from " + command.name);
  for (const std::string& name : option.names)
    text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (!option.choices.empty()) {
    text += " -x -a " + fish_quoted(joined(option.choices, " "));
  } else if (!option.value.empty()) {
    text += option.is_number ? " -x" : " -r";
  }
  return text + " -d " + fish_quoted(short_text(option.text)) + "\n";
}

std::vector<std::string> starters(const CommandText& program) {
  std::vector<std::string> names;
  for (const CommandText& command : program.commands)
    if (command.starts_program) names.push_back(command.name);
  return names;
}

}  // namespace

std::string bash_completion(const CommandText& program) {
  std::vector<std::string> first = names_of(program);
  std::string values;
  std::string options;
  for (const CommandText& command : program.commands) {
    first.push_back(command.name);
    values += bash_values(command);
    const std::vector<std::string> choices = argument_choices(command);
    const std::string words = choices.empty() ? "" : " words=" + bash_quoted(joined(choices, " "));
    options += "    " + command.name + ") options=" + bash_quoted(joined(names_of(command), " ")) +
               words + " ;;\n";
  }
  return std::string(kHead) + R"(# Completion for bash, by `cachalot completion bash`.
_cachalot() {
  local command=${COMP_WORDS[1]} current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local options words i
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W )" +
         bash_quoted(joined(first, " ")) + R"( -- "$current"))
    return
  fi
  # Behind -- stands the command line of another program.
  case $command in
    )" + joined(starters(program), " | ") +
         R"()
      for ((i = 2; i < COMP_CWORD; i++)); do
        [[ ${COMP_WORDS[i]} == -- ]] || continue
        if declare -F _command_offset >/dev/null; then
          _command_offset $((i + 1))
        elif ((COMP_CWORD == i + 1)); then
          COMPREPLY=($(compgen -c -- "$current"))
        fi
        return
      done
      ;;
  esac
  # Readline takes --option=value for three words.
  if [[ $current == = ]]; then
    current=
  elif [[ $previous == = ]]; then
    previous=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  case $command,$previous in
)" + values +
         R"(    *)
      case $command in
)" + replaced("\n" + options, "\n    ", "\n        ").substr(1) +
         R"(      esac
      [[ $current != -* ]] || words=$options
      COMPREPLY=($(compgen -W "$words" -- "$current"))
      ;;
  esac
}
complete -o default -F _cachalot cachalot
)";
}

std::string zsh_completion(const CommandText& program) {
  std::string commands;
  std::string arguments;
  for (const CommandText& command : program.commands) {
    commands += "    " + bash_quoted(command.name + ":" + short_text(command.text)) + "\n";
    arguments += "    " + command.name + ")\n      _arguments -s -S";
    for (const OptionText& option : command.options) {
      const std::string word = zsh_option(option, command.starts_program);
      if (!word.empty()) arguments += " \\\n        " + word;
    }
    arguments += "\n      ;;\n";
  }
  return "#compdef cachalot\n" + std::string(kHead) +
         R"(# Completion for zsh, by `cachalot completion zsh`.
_cachalot() {
  local -a subcommands=(
)" + commands +
         R"(  )
  if ((CURRENT == 2)); then
    _describe -t commands command subcommands
    compadd -- )" +
         joined(names_of(program), " ") + R"(
    return
  fi
  local subcommand=$words[2]
  local -i dashes=${words[(i)--]}
  # Behind -- stands the command line of another program.
  if [[ $subcommand == ()" +
         joined(starters(program), "|") + R"() ]] && ((dashes < CURRENT)); then
    shift $dashes words
    ((CURRENT -= dashes))
    _normal
    return
  fi
  shift words
  ((CURRENT--))
  case $subcommand in
)" + arguments +
         R"(  esac
}
if [ "$funcstack[1]" = _cachalot ]; then
  _cachalot "$@"
else
  compdef _cachalot cachalot
fi
)";
}

std::string fish_completion(const CommandText& program) {
  std::string text = std::string(kHead) + "# Completion for fish, by `cachalot completion fish`.\n";
  for (const OptionText& option : program.options) text += fish_option(program, option);
  for (const CommandText& command : program.commands) {
    text += "complete -c cachalot -n __fish_use_subcommand -f -a " + command.name + " -d " +
            fish_quoted(short_text(command.text)) + "\n";
    for (const OptionText& option : command.options)
      if (!option.names.empty() || !option.choices.empty()) text += fish_option(command, option);
  }
  for (const std::string& name : starters(program))
    text +=
        "complete -c cachalot -n " +
        fish_quoted("__fish_seen_subcommand_from " + name + "; and __fish_seen_argument -- --") +
        " -x -a '(__fish_complete_subcommand)'\n";
  return text;
}

}  // namespace cachalot::cli
