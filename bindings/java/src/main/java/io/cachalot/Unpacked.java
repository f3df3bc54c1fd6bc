// SPDX-License-Identifier: MIT OR Apache-2.0
package io.cachalot;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.DigestInputStream;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * A folder with the native code that the jar carries, for as long as it takes to load it: a file that is mapped
 * needs no name, so none is left behind.
 *
 * <p>What is loaded must be what the jar carries. The folder is new, has a name that nobody can guess, and only its
 * owner can enter it; no folder above it may let others replace what it has. Each file is written under another name, read again
 * without following links, compared with the jar's list of digests, and only then gets its name.
 */
final class Unpacked implements AutoCloseable {
  static final String PROPERTY = "io.cachalot.tmpdir";
  static final String PLATFORM = platform();
  private static final String ROOT = "/META-INF/native/";
  private static final String FOLDER = ROOT + PLATFORM + "/";
  /** What a jar may have; one that was built from a clone has the machine's alone. */
  private static final List<String> PLATFORMS = List.of("linux-aarch64", "linux-x86_64");
  private static final Set<PosixFilePermission> PRIVATE = PosixFilePermissions.fromString("rwx------");
  private static final int STICKY = 01000;
  private static final int WRITABLE_BY_OTHERS = 022;

  private final Path folder;
  private final Object owner;

  private Unpacked(Path folder, Object owner) {
    this.folder = folder;
    this.owner = owner;
  }

  private static String platform() {
    String system = System.getProperty("os.name").toLowerCase(Locale.ROOT);
    String machine = System.getProperty("os.arch").toLowerCase(Locale.ROOT);
    return (system.startsWith("linux") ? "linux" : system.split(" ")[0]) + "-"
        + (machine.equals("amd64") ? "x86_64" : machine);
  }

  /** The platforms whose native code the jar has, in words. */
  static String carriedPlatforms() {
    List<String> carried = PLATFORMS.stream()
        .filter(platform -> Unpacked.class.getResource(ROOT + platform + "/" + Library.CORE) != null).toList();
    return carried.isEmpty() ? "none" : String.join(" and ", carried);
  }

  static boolean isCarried(String name) {
    return Unpacked.class.getResource(FOLDER + name) != null;
  }

  /** The folders in which one may be made, in the order in which they are tried. */
  static List<Path> parents() {
    List<Path> parents = new ArrayList<>();
    String named = System.getProperty(PROPERTY);
    if (named != null) {
      return List.of(Path.of(named).toAbsolutePath());
    }
    parents.add(Path.of(System.getProperty("java.io.tmpdir")).toAbsolutePath());
    add(parents, System.getenv("XDG_RUNTIME_DIR"));
    add(parents, System.getenv("XDG_CACHE_HOME"));
    add(parents, System.getProperty("user.home"));
    parents.add(Path.of("/dev/shm"));
    return parents;
  }

  private static void add(List<Path> parents, String name) {
    if (name != null && name.startsWith("/") && Files.isDirectory(Path.of(name))) {
      parents.add(Path.of(name));
    }
  }

  static Unpacked in(Path parent) throws IOException {
    Path real = parent.toRealPath();
    FileAttribute<Set<PosixFilePermission>> mode = PosixFilePermissions.asFileAttribute(PRIVATE);
    Path folder = Files.createTempDirectory(real, "cachalot-", mode);
    Object owner = ownerOf(folder);
    Unpacked unpacked = new Unpacked(folder, owner);
    try {
      for (Path each = real; each != null; each = each.getParent()) {
        refuseIfOthersMayReplace(each, owner);
      }
      unpacked.check(folder, true);
    } catch (IOException refused) {
      unpacked.close();
      throw refused;
    }
    return unpacked;
  }

  /**
   * Others can rename what lies in a folder that they can write, unless it is sticky. Who has the root of the file
   * system can do that anyway; in a sandbox it is not always user 0.
   */
  private static void refuseIfOthersMayReplace(Path folder, Object owner) throws IOException {
    int mode = (int) Files.getAttribute(folder, "unix:mode", LinkOption.NOFOLLOW_LINKS);
    if ((mode & WRITABLE_BY_OTHERS) != 0 && (mode & STICKY) == 0) {
      throw new FileSystemException(folder.toString(), null, "others can write it, and it is not sticky");
    }
    Object of = ownerOf(folder);
    if (!of.equals(owner) && !of.equals(0) && !of.equals(ownerOf(folder.getRoot()))) {
      throw new FileSystemException(folder.toString(), null, "it belongs to another user");
    }
  }

  private static Object ownerOf(Path path) throws IOException {
    return Files.getAttribute(path, "unix:uid", LinkOption.NOFOLLOW_LINKS);
  }

  private void check(Path path, boolean isFolder) throws IOException {
    if (isFolder ? !Files.isDirectory(path, LinkOption.NOFOLLOW_LINKS)
        : !Files.isRegularFile(path, LinkOption.NOFOLLOW_LINKS)) {
      throw new FileSystemException(path.toString(), null, "it was replaced");
    }
    if (!ownerOf(path).equals(owner)) {
      throw new FileSystemException(path.toString(), null, "it belongs to another user");
    }
    if (!PRIVATE.containsAll(Files.getPosixFilePermissions(path, LinkOption.NOFOLLOW_LINKS))) {
      throw new FileSystemException(path.toString(), null, "others may touch it");
    }
  }

  /** Copies a file of the jar; where it lies. */
  Path copy(String name) throws IOException {
    String expected = digests().get(name);
    Path unchecked;
    try (InputStream from = resource(name)) {
      unchecked = write(name, from);
    }
    String found = digestOf(unchecked);
    if (!found.equals(expected)) {
      throw new FileSystemException(unchecked.toString(), null,
          "its digest is " + found + ", the jar says " + expected);
    }
    return accept(unchecked, name);
  }

  /** Copies a file that is trusted where it lies. */
  Path copy(Path file) throws IOException {
    String name = file.getFileName().toString();
    try (InputStream from = Files.newInputStream(file)) {
      return accept(write(name, from), name);
    }
  }

  private Path write(String name, InputStream from) throws IOException {
    Path unchecked = folder.resolve(name + ".part");
    Files.createFile(unchecked, PosixFilePermissions.asFileAttribute(PRIVATE));
    try (var to = Files.newOutputStream(unchecked, StandardOpenOption.WRITE, LinkOption.NOFOLLOW_LINKS)) {
      from.transferTo(to);
    }
    check(unchecked, false);
    return unchecked;
  }

  private Path accept(Path checked, String name) throws IOException {
    return Files.move(checked, folder.resolve(name), StandardCopyOption.ATOMIC_MOVE);
  }

  /** Lets the glue find a library that lies elsewhere. */
  void link(String name, Path target) throws IOException {
    Files.createSymbolicLink(folder.resolve(name), target.toRealPath());
  }

  private static InputStream resource(String name) throws IOException {
    InputStream stream = Unpacked.class.getResourceAsStream(FOLDER + name);
    if (stream == null) {
      throw new FileSystemException(FOLDER + name, null, "the jar does not carry it");
    }
    return stream;
  }

  /** The list has the form that sha256sum writes. */
  private static Map<String, String> digests() throws IOException {
    Map<String, String> digests = new TreeMap<>();
    try (InputStream list = resource("SHA256SUMS")) {
      for (String line : new String(list.readAllBytes(), StandardCharsets.US_ASCII).split("\n")) {
        String[] words = line.trim().split("\\s+");
        if (words.length == 2) {
          digests.put(words[1], words[0]);
        }
      }
    }
    return digests;
  }

  private static String digestOf(Path file) throws IOException {
    try {
      MessageDigest digest = MessageDigest.getInstance("SHA-256");
      try (InputStream from = new DigestInputStream(
          Files.newInputStream(file, StandardOpenOption.READ, LinkOption.NOFOLLOW_LINKS), digest)) {
        from.transferTo(java.io.OutputStream.nullOutputStream());
      }
      StringBuilder text = new StringBuilder();
      for (byte each : digest.digest()) {
        text.append(String.format("%02x", each));
      }
      return text.toString();
    } catch (NoSuchAlgorithmException impossible) {
      throw new AssertionError(impossible);
    }
  }

  /** Removes what is there: it has been loaded, or is of no use. */
  @Override
  public void close() {
    try (var files = Files.list(folder)) {
      for (Path file : (Iterable<Path>) files::iterator) {
        Files.deleteIfExists(file);
      }
      Files.deleteIfExists(folder);
    } catch (IOException ignored) {
      // Somebody else was faster, or the disk has failed; nothing depends on it.
    }
  }
}
