build-vm/util/json_scan.o: src/util/json_scan.c src/util/json_scan.h
src/util/json_scan.h:
