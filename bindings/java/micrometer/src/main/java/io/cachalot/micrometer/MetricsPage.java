// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot.micrometer;

import io.micrometer.core.instrument.Tag;
import io.micrometer.core.instrument.Tags;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The numbers of a page in the text format of Prometheus. */
final class MetricsPage {
  static final MetricsPage EMPTY = new MetricsPage();
  private static final Pattern HEAD = Pattern.compile("# (HELP|TYPE) (\\S+) (.*)");
  private static final Pattern SAMPLE = Pattern.compile("([^\\s{]+)(?:\\{(.*)\\})? (\\S+)");
  private static final Pattern LABEL = Pattern.compile("(\\w+)=\"((?:[^\"\\\\]|\\\\.)*)\"");
  private static final Pattern ESCAPE = Pattern.compile("\\\\(.)");

  private final Map<Series, Double> values = new LinkedHashMap<>();
  /** By the number of a device. */
  private final Map<String, String> uuids = new HashMap<>();

  private MetricsPage() {}

  /** Series of one meaning. */
  record Family(String name, String help, boolean isCounter) {
    /** The name without what every counter's ends in. */
    String stem() {
      return isCounter && name.endsWith("_total") ? name.substring(0, name.length() - "_total".length()) : name;
    }
  }

  record Series(Family family, Tags tags) {
    /** Of a tag; "": there is none. */
    String valueOf(String key) {
      return tags.stream().filter(tag -> tag.getKey().equals(key)).map(Tag::getValue).findFirst().orElse("");
    }
  }

  static MetricsPage parse(String text) {
    MetricsPage page = new MetricsPage();
    Map<String, String> heads = new HashMap<>();
    text.lines().filter(line -> !line.isEmpty()).forEach(line -> {
      Matcher head = HEAD.matcher(line);
      if (head.matches()) {
        heads.put(head.group(1) + head.group(2), head.group(3));
      } else if (!line.startsWith("#")) {
        page.add(heads, line);
      }
    });
    return page;
  }

  private void add(Map<String, String> heads, String line) {
    Matcher sample = SAMPLE.matcher(line);
    if (!sample.matches()) {
      throw new IllegalArgumentException("the page of metrics has a line that is no sample: " + line);
    }
    String name = sample.group(1);
    Family family = new Family(name, heads.getOrDefault("HELP" + name, ""),
        "counter".equals(heads.get("TYPE" + name)));
    Series series = new Series(family, tags(sample.group(2)));
    values.put(series, Double.valueOf(sample.group(3)));
    if (name.equals("cachalot_device_info")) {
      uuids.put(series.valueOf("device"), series.valueOf("uuid"));
    }
  }

  /** What tells the GPU of a series from all others. */
  Tags identity(Series series) {
    String uuid = uuids.getOrDefault(series.valueOf("device"), "");
    return uuid.isEmpty() ? Tags.empty() : Tags.of("uuid", uuid);
  }

  private static Tags tags(String labels) {
    Tags tags = Tags.empty();
    Matcher label = LABEL.matcher(labels == null ? "" : labels);
    while (label.find()) {
      tags = tags.and(label.group(1), unescape(label.group(2)));
    }
    return tags;
  }

  private static String unescape(String value) {
    return ESCAPE.matcher(value).replaceAll(
        escape -> escape.group(1).equals("n") ? "\n" : Matcher.quoteReplacement(escape.group(1)));
  }

  Set<Series> series() {
    return values.keySet();
  }

  boolean has(Series series) {
    return values.containsKey(series);
  }

  double value(Series series) {
    return values.getOrDefault(series, Double.NaN);
  }

  Map<Series, Double> values() {
    return values;
  }
}
