# SPDX-License-Identifier: MIT OR Apache-2.0
# Java: what a new user types, in an empty folder with the program.
mkdir -p src/main/java
cp First.java src/main/java
mvn -B -q compile exec:java
