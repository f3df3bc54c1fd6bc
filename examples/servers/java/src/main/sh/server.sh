#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Starts the server of the folder that this lies in, where the build has put it.
folder=$(cd "$(dirname "$0")" && pwd)
exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" -Djava.awt.headless=true -Djava.library.path="$folder" -jar "$folder/cachalot-server.jar"
