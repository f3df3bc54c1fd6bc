#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Publishes the artifacts of Java on Maven Central, or rehearses it.
#
#   bindings/java/release.sh rehearse [OUT]   OUT: build/java-release
#   bindings/java/release.sh publish
#
# Both build the jars with the native code of each platform, from build/portable (capi/packaging/portable/build.sh), or
# from CACHALOT_PORTABLE_DIR. `rehearse` signs them with a key that it makes and throws away, has the plugin of Maven
# Central make the bundle that it would upload, checks it, and leaves it in OUT as a repository of files. `publish`
# signs with the key of the person who runs it (GNUPGHOME; MAVEN_GPG_PASSPHRASE, or the agent asks) and uploads, with the
# token of the server `central` in ~/.m2/settings.xml. It refuses while parent/pom.xml has a placeholder.
set -eu
cd "$(dirname "$0")"
root=$(cd ../.. && pwd)
version=$(cat "$root/VERSION")
repository=$(sed -n 's,.*<project.repository>\(.*\)</project.repository>.*,\1,p' parent/pom.xml)
export CACHALOT_PORTABLE_DIR="${CACHALOT_PORTABLE_DIR:-$root/build/portable}"

deploy() {
  mvn -B -f parent/pom.xml -Prelease -Dbuild.folder="$out/target" "$@" deploy
}

# As Maven Central checks them: a signature and sums of each file, sources and Javadoc of each jar.
check_bundle() {
  for artifact in cachalot cachalot-micrometer; do
    folder=$out/repository/io/cachalot/$artifact/$version
    for kind in .pom .jar -sources.jar -javadoc.jar; do
      file=$folder/$artifact-$version$kind
      gpg --batch --quiet --verify "$file.asc" "$file" 2>/dev/null || { echo "$file: its signature is wrong" >&2; exit 1; }
      for sum in md5 sha1; do
        [ "$(cut -c 1-128 "$file.$sum")" = "$("${sum}sum" "$file" | cut -d ' ' -f 1)" ] ||
          { echo "$file: its $sum is wrong" >&2; exit 1; }
      done
    done
    for element in name description url licenses developers scm; do
      grep -q "^  <$element[ >]" "$folder/$artifact-$version.pom" || { echo "$artifact's POM has no $element" >&2; exit 1; }
    done
    for address in "  <url>https://cachalot.io<" "    <url>https://$repository<"; do
      grep -q "^$address" "$folder/$artifact-$version.pom" || { echo "$artifact's POM has no $address" >&2; exit 1; }
    done
    ! grep -q '<parent>' "$folder/$artifact-$version.pom" || { echo "$artifact's POM has a parent" >&2; exit 1; }
  done
}

# check_native FILE MACHINE: what it is for, and that it runs on systems as old as it should.
check_native() {
  readelf -h "$1" | grep -q "Machine:.*$2" || { echo "$1 is not for $2" >&2; exit 1; }
  needed=$(readelf -VW "$1" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -Vu | tail -n 1)
  [ "$(printf '%s\n2.27\n' "$needed" | sort -V | tail -n 1)" = 2.27 ] ||
    { echo "$1 needs version $needed of the C library" >&2; exit 1; }
  others=$(readelf -dW "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
    grep -vE '^(lib(c|m|dl|pthread|rt)\.so\.[0-9]|ld-linux.*|libcachalot\.so\..*)$' || true)
  [ -z "$others" ] || { echo "$1 needs $others" >&2; exit 1; }
  echo "$(basename "$1") for $2: needs version $needed of the C library"
}

check_jar() {
  rm -rf "$out/jar"
  unzip -qo "$out/repository/io/cachalot/cachalot/$version/cachalot-$version.jar" 'META-INF/*' -d "$out/jar"
  for platform in linux-x86_64/X86-64 linux-aarch64/AArch64; do
    folder=$out/jar/META-INF/native/${platform%/*}
    (cd "$folder" && sha256sum --quiet -c SHA256SUMS)
    for file in "$folder"/*.so*; do check_native "$file" "${platform#*/}"; done
    readelf --dyn-syms -W "$folder/libcachalot_jni.so" | awk '$7 != "UND" { print $8 }' | grep -E '^(Java_|JNI_)' | sort \
      >"$out/jar/${platform#*/}.symbols"
  done
  [ -s "$out/jar/X86-64.symbols" ] && cmp "$out/jar/X86-64.symbols" "$out/jar/AArch64.symbols"
}

rehearse() {
  . "$root/capi/packaging/signing/throw_away_key.sh"
  rm -rf "$out/target" "$out/repository"
  # The plugin asks for the server, although it does not call it.
  cat >"$out/settings.xml" <<END
<settings><servers>
<server><id>central</id><username>nobody</username><password>none</password></server>
</servers></settings>
END
  deploy -q -gs "$out/settings.xml" -DskipUpload=true
  unzip -qo "$out/target/central-publishing/central-bundle.zip" -d "$out/repository"
  check_bundle
  check_jar
  echo "$out/repository has what would be published:"
  (cd "$out/repository" && find . -type f -name '*.jar' -exec du -k {} +)
}

publish() {
  if grep -n 'invalid<\|invalid/' parent/pom.xml >&2; then
    echo "parent/pom.xml has these placeholders: nothing is published" >&2
    exit 1
  fi
  deploy
}

case ${1-} in
  rehearse | publish)
    mkdir -p "${2:-$root/build/java-release}"
    out=$(cd "${2:-$root/build/java-release}" && pwd)
    "$1"
    ;;
  *)
    sed -n '3,6s/^# *//p' "$0" >&2
    exit 2
    ;;
esac
