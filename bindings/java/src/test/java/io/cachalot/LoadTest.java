// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.lang.ref.WeakReference;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Where the native library is found, how it is unpacked, and that it goes with its class loader. */
final class LoadTest {
  private static final String NATIVE = "META-INF/native/" + Unpacked.PLATFORM;
  @TempDir
  private Path folder;
  private Path temporary;
  /** The classes as the build made them, and the folder with the native files. */
  private Path classes;
  /** What the virtual machine is started by. */
  private List<String> before = List.of();

  @BeforeEach
  void find() throws Exception {
    URL place = Allocator.class.getProtectionDomain().getCodeSource().getLocation();
    classes = Path.of(place.toURI());
    temporary = Files.createDirectory(folder.resolve("tmp"));
  }

  /** What a new virtual machine says. */
  private String probe(Map<String, String> environment, String classPath, String... options) throws Exception {
    List<String> arguments = new ArrayList<>(List.of("-Djava.io.tmpdir=" + temporary, "-cp", classPath));
    arguments.addAll(List.of(options));
    arguments.add(LoadProbe.class.getName());
    return Jvm.run(before, environment, arguments);
  }

  private String all() {
    return System.getProperty("java.class.path");
  }

  /** The classes without native files. */
  private String bare() throws Exception {
    Path copy = folder.resolve("bare");
    copyFolder(classes, copy, "META-INF");
    return copy + ":" + Path.of(LoadProbe.class.getProtectionDomain().getCodeSource().getLocation().toURI());
  }

  private static void copyFolder(Path from, Path to, String without) throws IOException {
    try (Stream<Path> files = Files.walk(from)) {
      for (Path file : (Iterable<Path>) files::iterator) {
        if (!file.startsWith(from.resolve(without))) {
          Files.copy(file, to.resolve(from.relativize(file).toString()));
        }
      }
    }
  }

  private Path nativeFiles() throws IOException {
    Path copy = Files.createDirectory(folder.resolve("native"));
    Path from = folder.resolve("from");
    if (Files.isDirectory(classes)) {
      from = classes.resolve(NATIVE);
    } else {
      try (java.nio.file.FileSystem jar = java.nio.file.FileSystems.newFileSystem(classes)) {
        copyFolder(jar.getPath(NATIVE), copyTarget(copy), "none");
      }
      return copy;
    }
    try (Stream<Path> files = Files.list(from)) {
      for (Path file : (Iterable<Path>) files::iterator) {
        Files.copy(file, copy.resolve(file.getFileName().toString()));
      }
    }
    return copy;
  }

  private static Path copyTarget(Path copy) throws IOException {
    Files.delete(copy);
    return copy;
  }

  @Test
  void theJarsCopyLeavesNothingBehind() throws Exception {
    assertTrue(probe(Map.of(), all()).contains("found: the jar"));
    try (Stream<Path> left = Files.list(temporary)) {
      assertEquals(List.of(), left.filter(path -> !path.getFileName().toString().startsWith("hsperf")).toList());
    }
  }

  @Test
  void propertyThenVariableThenJarThenPath() throws Exception {
    Path there = nativeFiles();
    String property = "-D" + Library.PROPERTY + "=" + there;
    Map<String, String> variable = Map.of("CACHALOT_LIB_DIR", there.toString());
    assertTrue(probe(variable, all(), property).contains("found: system property"));
    assertTrue(probe(variable, all()).contains("found: environment variable"));
    // A folder without the glue gets that of the jar.
    Files.delete(there.resolve(Library.GLUE));
    assertTrue(probe(variable, all()).contains("found: environment variable"));
    assertTrue(probe(Map.of("CACHALOT_LIB_DIR", temporary.toString()), all()).contains("found: the jar"));
  }

  @Test
  void theLibraryPathIsLast() throws Exception {
    Path there = nativeFiles();
    String found = probe(Map.of(), bare(), "-Djava.library.path=" + there);
    assertTrue(found.contains("found: the library path"), found);
  }

  @Test
  void aFailureNamesWhatWasTried() throws Exception {
    String said = probe(Map.of("CACHALOT_LIB_DIR", temporary.toString()), bare(), "-Djava.library.path=/none");
    for (String word : List.of("failed:", Library.PROPERTY + ": not set", temporary + ": has no " + Library.CORE,
        "the jar: carries no library", "the library path: no cachalot_jni")) {
      assertTrue(said.contains(word), said);
    }
  }

  @Test
  void anUnknownPlatformIsNamedBesideThoseThatThereAre() throws Exception {
    String said = probe(Map.of(), all(), "-Dos.arch=riscv64");
    assertTrue(said.contains("failed: cachalot has no native library for linux-riscv64 (the jar has: ")
        && said.contains(Unpacked.PLATFORM), said);
    said = probe(Map.of(), bare());
    assertTrue(said.contains("(the jar has: none)"), said);
  }

  @Test
  void aFolderThatCannotBeUsedGetsAnAnswer() throws Exception {
    String said = probe(Map.of(), all(), "-D" + Unpacked.PROPERTY + "=/proc");
    assertTrue(said.contains("failed:") && said.contains("/proc") && said.contains(Library.PROPERTY), said);
    Path open = Files.createDirectory(folder.resolve("open"));
    Files.setPosixFilePermissions(open, PosixFilePermissions.fromString("rwxrwxrwx"));
    said = probe(Map.of(), all(), "-D" + Unpacked.PROPERTY + "=" + open);
    assertTrue(said.contains("others can write it"), said);
    try (Stream<Path> left = Files.list(open)) {
      assertEquals(0, left.count());
    }
  }

  @Test
  void noFolderAboveMayBeOpenToOthers() throws Exception {
    Path open = Files.createDirectory(folder.resolve("open"));
    Files.setPosixFilePermissions(open, PosixFilePermissions.fromString("rwxrwxrwx"));
    Path inside = Files.createDirectories(open.resolve("private").resolve("tmp"),
        PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
    String said = probe(Map.of(), all(), "-D" + Unpacked.PROPERTY + "=" + inside);
    assertTrue(said.contains(open + ": others can write it"), said);
  }

  @Test
  void aSecondAttemptFailsWithTheSameText() throws Exception {
    String said = probe(Map.of(), bare(), "-Djava.library.path=/none");
    String first = said.substring(said.indexOf("failed: ") + "failed: ".length(), said.indexOf("again: ")).strip();
    assertTrue(first.contains("no cachalot_jni"), said);
    assertEquals(first, said.substring(said.indexOf("again: ") + "again: ".length()).strip());
  }

  /** Mounts a folder for the virtual machine only, where this user may. */
  private static final String MOUNT = "mount -t tmpfs -o noexec none \"$0\" && exec \"$@\"";

  /** Lets nothing be written anywhere. */
  private static final String READ_ONLY = "while read -r _ place _; do mount -o remount,ro,bind \"$place\"; done "
      + "</proc/self/mounts 2>/dev/null; ! touch \"$0\" 2>/dev/null && exec \"$@\"";

  /** Starts what follows by a shell that may mount. */
  private void startBy(String script, Path argument) throws Exception {
    before = List.of("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, argument.toString());
    assumeTrue(new ProcessBuilder(Stream.concat(before.stream(), Stream.of("true")).toList()).start().waitFor() == 0,
        "unshare is refused, so nothing can be mounted for a test of folders that cannot be used");
  }

  @Test
  void aReadOnlyRootGetsAnAnswerAndHasAWay() throws Exception {
    Path there = nativeFiles();
    startBy(READ_ONLY, folder.resolve("written"));
    String said = probe(Map.of(), all(), "-XX:-UsePerfData");
    for (String word : List.of("failed:", temporary.toString(), "/dev/shm", "Read-only file system", Library.PROPERTY)) {
      assertTrue(said.contains(word), said);
    }
    assertTrue(probe(Map.of(), all(), "-XX:-UsePerfData", "-D" + Library.PROPERTY + "=" + there)
        .contains("found: system property"));
  }

  @Test
  void noexecGetsAnAnswer() throws Exception {
    Path noexec = Files.createDirectory(folder.resolve("noexec"));
    startBy(MOUNT, noexec);
    String said = probe(Map.of(), all(), "-D" + Unpacked.PROPERTY + "=" + noexec);
    assertTrue(said.contains("failed:") && said.contains("noexec"), said);
    // Another folder is taken where none is named.
    temporary = noexec;
    assertTrue(probe(Map.of("XDG_RUNTIME_DIR", folder.toString()), all()).contains("found: the jar"));
  }

  @Test
  void aChangedFileIsRefused() throws Exception {
    assumeTrue(Files.isDirectory(classes));
    Path copy = folder.resolve("changed");
    copyFolder(classes, copy, "none");
    Files.writeString(copy.resolve(NATIVE).resolve("SHA256SUMS"),
        Files.readString(copy.resolve(NATIVE).resolve("SHA256SUMS")).replaceAll("(?m)^.", "x"));
    Path tests = Path.of(LoadProbe.class.getProtectionDomain().getCodeSource().getLocation().toURI());
    String said = probe(Map.of(), copy + ":" + tests);
    assertTrue(said.contains("its digest is"), said);
  }

  // ---- Libraries that are there before --------------------------------------------------------

  @Test
  void aLibraryThatWasLoadedBeforeIsSharedAndNamed() throws Exception {
    Path there = nativeFiles();
    String before = "-Dprobe.load=" + there.resolve(Library.CORE);
    String said = probe(Map.of(), all(), before);
    assertTrue(said.contains("found: loaded before: " + there.resolve(Library.CORE)), said);
    said = probe(Map.of("CACHALOT_LIB_DIR", there.toString()), all(), before);
    assertTrue(said.contains("found: environment variable"), said);
  }

  /** Two loaders in one new virtual machine, and where each has its library from. */
  private List<String> probeTwice(Map<String, String> environment, String classPath, String... options)
      throws Exception {
    List<String> all = new ArrayList<>(List.of(options));
    all.add("-Dprobe.loaders=2");
    String said = probe(environment, classPath, all.toArray(new String[0]));
    return said.lines().filter(line -> line.startsWith("found: ") || line.startsWith("failed: ")).toList();
  }

  @Test
  void twoLoadersShareTheLibraryOfAFolder() throws Exception {
    Path there = nativeFiles();
    String named = "found: environment variable CACHALOT_LIB_DIR, " + there;
    assertEquals(List.of(named, named), probeTwice(Map.of("CACHALOT_LIB_DIR", there.toString()), all()));
    String path = "found: the library path, with " + there.resolve(Library.CORE);
    assertEquals(List.of(path, "found: the library path"),
        probeTwice(Map.of(), bare(), "-Djava.library.path=" + there));
    Files.delete(there.resolve(Library.GLUE));
    assertEquals(List.of(named, named), probeTwice(Map.of("CACHALOT_LIB_DIR", there.toString()), all()));
  }

  @Test
  void twoLoadersShareTheLibraryOfTheJar() throws Exception {
    List<String> said = probeTwice(Map.of(), all());
    assertEquals("found: the jar", said.get(0));
    assertTrue(said.get(1).startsWith("found: loaded before: " + temporary), said.get(1));
  }

  // ---- Class loaders ----------------------------------------------------------------------------

  /** Uses the library through classes of a loader of its own, and closes nothing. */
  private WeakReference<ClassLoader> useInNewLoader() throws Exception {
    URLClassLoader loader = new URLClassLoader(new URL[] {classes.toUri().toURL()},
        ClassLoader.getPlatformClassLoader());
    Class<?> type = loader.loadClass(Allocator.class.getName());
    Class<?> drivers = loader.loadClass(Driver.class.getName());
    Object driver = drivers.getMethod("open", String.class).invoke(null, "sim");
    Object builder = type.getMethod("builder").invoke(null);
    builder.getClass().getMethod("driver", drivers).invoke(builder, driver);
    Object allocator = builder.getClass().getMethod("build").invoke(builder);
    Object block = type.getMethod("allocate", long.class).invoke(allocator, 1L);
    assertEquals(0x700000000000L, block.getClass().getMethod("address").invoke(block));
    Class<?> callback = loader.loadClass(FreeMemoryCallback.class.getName());
    Object observer = java.lang.reflect.Proxy.newProxyInstance(loader, new Class<?>[] {callback},
        (proxy, method, arguments) -> method.getName().equals("equals") ? proxy == arguments[0]
            : method.getName().equals("hashCode") ? (Object) 1 : Boolean.FALSE);
    type.getMethod("onFreeMemory", callback).invoke(allocator, observer);
    return new WeakReference<>(loader);
  }

  @Test
  void goesWithItsLoaderAndComesAgain() throws Exception {
    for (int round = 0; round < 3; round++) {
      WeakReference<ClassLoader> loader = useInNewLoader();
      WeakReference<ClassLoader> other = useInNewLoader();
      LifeTest.eventually("the class loaders are collected", () -> loader.get() == null && other.get() == null);
    }
  }
}
